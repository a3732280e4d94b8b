package scenarios

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// pipeline does "pipeline COUNT NAME TYPE [late=NAME]": so many questions, behind one for the
// late name, in one write on one TCP connection. The replies to all but the late one are taken,
// in any order, and the lines below judge each; meanwhile the question is answered over UDP as
// well. The late one is in flight then, for "receive".
func (r *run) pipeline(ctx context.Context, words []string, body []Line) error {
	if len(words) < 3 {
		return errors.New("want: pipeline COUNT NAME TYPE [late=NAME]")
	}
	count, err := strconv.Atoi(words[0])
	if err != nil || count < 1 || count > 1<<15 {
		return fmt.Errorf("count %q is no number from 1 to %d", words[0], 1<<15)
	}
	late := ""
	if len(words) > 3 {
		var ok bool
		if late, ok = strings.CutPrefix(words[3], "late="); !ok || len(words) > 4 {
			return fmt.Errorf("unknown word %q", words[3])
		}
	}
	p := &pipelined{run: r}
	if late != "" {
		if err := p.add(late, words[2], 1); err != nil {
			return err
		}
	}
	if err := p.add(words[1], words[2], count); err != nil {
		return err
	}
	return p.ask(ctx, late != "", body)
}

// pipelined are questions on one connection; their IDs are their places in the list.
type pipelined struct {
	*run
	list []inFlight
	all  []byte // as they are written
}

func (p *pipelined) add(name, qtype string, count int) error {
	questions, err := parseQuestions([]string{name, qtype, "tcp"}, p.dns)
	if err != nil {
		return err
	}
	p.noteName(&questions[0])
	for range count {
		packet, err := questions[0].packet()
		if err != nil {
			return err
		}
		binary.BigEndian.PutUint16(packet, uint16(len(p.list)))
		p.list = append(p.list, inFlight{q: questions[0], packet: packet})
		p.all = append(binary.BigEndian.AppendUint16(p.all, uint16(len(packet))), packet...)
	}
	return nil
}

func (p *pipelined) ask(ctx context.Context, late bool, body []Line) error {
	c, err := dial(ctx, "tcp", p.dns)
	if err != nil {
		return err
	}
	began := time.Now()
	written := make(chan error, 1)
	go func() {
		_, err := c.(*tcpConn).Write(p.all)
		written <- err
	}()
	err = p.askUDP(ctx)
	awaited := p.list
	if late {
		awaited = p.list[1:]
	}
	for taken := 0; err == nil && taken < len(awaited); taken++ {
		if err = p.take(ctx, c, late, began, body); err != nil {
			err = fmt.Errorf("reply %d of %d: %w", taken+1, len(awaited), err)
		}
	}
	if err == nil && late {
		p.flight = append(p.flight, inFlight{c, p.list[0].q, p.list[0].packet, began})
		return <-written
	}
	return errors.Join(err, c.Close(), <-written)
}

// askUDP asks the last question over UDP too.
func (p *pipelined) askUDP(ctx context.Context) error {
	q := p.list[len(p.list)-1].q
	q.transport = "udp"
	packet, err := q.packet()
	if err == nil {
		_, err = exchange(ctx, "udp", q.server, packet)
	}
	if err != nil {
		return fmt.Errorf("rule 26: UDP suffers: %w", err)
	}
	return nil
}

// take reads one reply, which must be one that has not come yet.
func (p *pipelined) take(ctx context.Context, c conn, late bool, began time.Time, body []Line) error {
	wire, err := c.receive()
	if err != nil {
		return err
	}
	id := len(p.list)
	if len(wire) >= 2 {
		id = int(binary.BigEndian.Uint16(wire))
	}
	switch {
	case id >= len(p.list) || p.list[id].packet == nil:
		return fmt.Errorf("ID %d was not asked, or is answered twice", id)
	case late && id == 0:
		return errors.New("the late question is answered before the others")
	}
	f := p.list[id]
	p.list[id].packet = nil
	reply, err := newReply(f.packet, wire, f.q.server, "tcp", time.Since(began))
	p.last = reply
	if err == nil {
		err = checkAlways(&f.q, reply)
	}
	if err != nil {
		return err
	}
	return checkBody(&check{ctx: ctx, run: p.run, question: f.q, reply: reply}, body)
}
