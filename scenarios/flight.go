package scenarios

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// inFlight is a question that was sent and whose reply has not been taken yet.
type inFlight struct {
	conn   conn
	q      question
	packet []byte
	since  time.Time
}

// send does "send COUNT NAME TYPE …": the questions are sent, each from its own socket,
// and not waited for.
func (r *run) send(ctx context.Context, words []string, _ []Line) error {
	if len(words) == 0 {
		return errors.New("want: send COUNT NAME TYPE …")
	}
	count, err := strconv.Atoi(words[0])
	if err != nil {
		return fmt.Errorf("count %q is no number", words[0])
	}
	questions, err := parseQuestions(words[1:], r.dns)
	if err != nil {
		return err
	}
	for _, q := range questions {
		r.noteName(&q)
		for range count {
			if err := r.sendOne(ctx, q); err != nil {
				return fmt.Errorf("%s: %w", &q, err)
			}
		}
	}
	return nil
}

func (r *run) sendOne(ctx context.Context, q question) error {
	packet, err := q.packet()
	if err != nil {
		return err
	}
	conn, err := dial(ctx, q.transport, q.server)
	if err != nil {
		return err
	}
	r.flight = append(r.flight, inFlight{conn, q, packet, time.Now()})
	return conn.send(packet)
}

// receive does "receive": the replies to all questions in flight are taken, and the lines
// below judge each.
func (r *run) receive(ctx context.Context, _ []string, body []Line) error {
	if len(r.flight) == 0 {
		return errors.New("no question is in flight")
	}
	defer r.endFlight()
	flight := r.flight
	for i := range flight {
		if err := r.receiveOne(ctx, &flight[i], body); err != nil {
			return fmt.Errorf("reply %d of %d, %s: %w", i+1, len(flight), &flight[i].q, err)
		}
	}
	return nil
}

func (r *run) receiveOne(ctx context.Context, f *inFlight, body []Line) error {
	wire, err := f.conn.receive()
	if err != nil {
		return err
	}
	reply, err := newReply(f.packet, wire, f.q.server, f.q.transport, time.Since(f.since))
	r.last = reply
	if err == nil {
		err = checkAlways(&f.q, reply)
	}
	if err != nil {
		return err
	}
	return checkBody(&check{ctx: ctx, run: r, question: f.q, reply: reply}, body)
}

// endFlight closes the sockets of all questions in flight.
func (r *run) endFlight() {
	for _, f := range r.flight {
		f.conn.Close()
	}
	r.flight = nil
}
