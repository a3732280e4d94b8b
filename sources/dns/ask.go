package dns

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"
)

// asker asks one question of the upstream servers, one after the other, until one gives
// an answer.
type asker struct {
	client    *Client
	upstreams *upstreams
}

// ask gives the first usable answer: the next server is asked on SERVFAIL, REFUSED and
// other codes, on no reply, a malformed one, a referral and an unproven empty answer
// (DNS_RULES 39, CASES C151). What is left of ctx's time is shared by the servers that
// are left, so that each is reached within it. The error holds one for each server.
func (a *asker) ask(ctx context.Context, q Question) (*answer, error) {
	servers, err := a.upstreams.servers()
	if err != nil {
		return nil, err
	}
	failed := &serverErrors{question: q}
	for i, server := range servers {
		answer, err := a.askOne(ctx, q, server, len(servers)-i)
		if err == nil {
			return answer, nil
		}
		failed.add(server, err)
		if ctx.Err() != nil {
			break
		}
	}
	return nil, failed
}

// askOne asks one server, within its share of the time.
func (a *asker) askOne(ctx context.Context, q Question, server netip.AddrPort, left int) (*answer, error) {
	share := a.client.timeout
	if deadline, ok := ctx.Deadline(); ok {
		share = time.Until(deadline)
	}
	shared, cancel := context.WithTimeout(ctx, share/time.Duration(left))
	defer cancel()
	reply, err := a.client.exchange(shared, q, server)
	a.note(ctx, server, err)
	if err != nil {
		return nil, err
	}
	return convert(reply.Msg, q)
}

// note tells the upstreams whether server is alive, if err says anything about that.
func (a *asker) note(ctx context.Context, server netip.AddrPort, err error) {
	switch {
	case err == nil, errors.Is(err, ErrMalformed):
		a.upstreams.replied(server, true)
	case errors.Is(err, errNoSocket), errors.Is(ctx.Err(), context.Canceled):
	default:
		a.upstreams.replied(server, false)
	}
}

// serverErrors is what each server did wrong, on one line.
type serverErrors struct {
	question Question
	parts    []string
	errs     []error
}

func (e *serverErrors) add(server netip.AddrPort, err error) {
	e.parts = append(e.parts, fmt.Sprintf("%s: %v", server, err))
	e.errs = append(e.errs, err)
}

// Error implements error.
func (e *serverErrors) Error() string {
	return e.question.String() + ": " + strings.Join(e.parts, "; ")
}

// Unwrap gives the servers' errors to errors.Is.
func (e *serverErrors) Unwrap() []error { return e.errs }
