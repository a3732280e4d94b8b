package scenarios

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/miekg/dns"
)

// behave does "upstream NAME [ADDRESS]": from now on the upstream does what the lines
// below say.
func (r *run) behave(_ context.Context, words []string, body []Line) error {
	if len(words) == 0 {
		return errors.New("want: upstream NAME [ADDRESS]")
	}
	b, err := parseBehaviour(body)
	if err != nil {
		return err
	}
	r.upstreams[words[0]].behave(b)
	return nil
}

func (r *run) upstreamNamed(words []string) (*upstream, error) {
	if len(words) == 0 || r.upstreams[words[0]] == nil {
		return nil, errors.Join(errFinal, fmt.Errorf("want the name of an upstream, got %v", words))
	}
	return r.upstreams[words[0]], nil
}

// release does "release UPSTREAM": held replies go.
func (r *run) release(_ context.Context, words []string, _ []Line) error {
	u, err := r.upstreamNamed(words)
	if err != nil {
		return err
	}
	u.release()
	return nil
}

// forget does "forget UPSTREAM": what it was asked so far is not counted any more.
func (r *run) forget(_ context.Context, words []string, _ []Line) error {
	u, err := r.upstreamNamed(words)
	if err != nil {
		return err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.asked = nil
	return nil
}

// asked does "asked UPSTREAM [NAME [TYPE]] [udp|tcp]": what the upstream was asked. Below
// it: "count NUMBER", "ids distinct", "ports distinct", "do clear".
func (r *run) asked(_ context.Context, words []string, body []Line) error {
	u, err := r.upstreamNamed(words)
	if err != nil {
		return err
	}
	matching, err := u.matching(words[1:])
	if err != nil {
		return errors.Join(errFinal, err)
	}
	for _, line := range body {
		if err := checkAsked(matching, line); err != nil {
			return fmt.Errorf("line %d: %w", line.Number, err)
		}
	}
	return nil
}

func (u *upstream) matching(words []string) ([]askedQuestion, error) {
	var name, transport string
	var qtype uint16
	for _, word := range words {
		var err error
		switch {
		case word == "udp" || word == "tcp":
			transport = word
		case name == "":
			name = dns.CanonicalName(word)
		default:
			if qtype, err = parseNumbered(word, dns.StringToType, "TYPE"); err != nil {
				return nil, err
			}
		}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	var found []askedQuestion
	for _, q := range u.asked {
		if (name == "" || q.name == name) && (qtype == 0 || q.qtype == qtype) && (transport == "" || q.transport == transport) {
			found = append(found, q)
		}
	}
	return found, nil
}

func checkAsked(questions []askedQuestion, line Line) error {
	if len(line.Words) != 2 {
		return errors.New("want a keyword and one value")
	}
	ids, ports, withDO := map[uint16]bool{}, map[int]bool{}, 0
	for _, q := range questions {
		ids[q.id], ports[q.port] = true, true
		if q.do {
			withDO++
		}
	}
	switch strings.Join(line.Words, " ") {
	case "ids distinct":
		return wantDistinct("IDs", len(ids), len(questions))
	case "ports distinct":
		return wantDistinct("source ports", len(ports), len(questions))
	case "do clear":
		return wantSpan("questions with DO", "0", int64(withDO))
	}
	if line.Words[0] != "count" {
		return fmt.Errorf("unknown expectation %q", line.Text)
	}
	return wantSpan("questions", line.Words[1], int64(len(questions)))
}

// wantDistinct allows for what chance makes equal: one in ten of at least ten.
func wantDistinct(what string, distinct, all int) error {
	if all < 2 || distinct < all-all/10 {
		return fmt.Errorf("%s: %d distinct ones of %d", what, distinct, all)
	}
	return nil
}
