package scenarios

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"
)

// stepFunc does one step; words are those after its keyword, variables expanded.
type stepFunc func(ctx context.Context, words []string, body []Line) error

// steps by keyword; README.md describes each. needsServer says which of them start the
// server if none runs.
func (r *run) steps() (steps map[string]stepFunc, needsServer map[string]bool) {
	steps = map[string]stepFunc{
		"start":     r.start,
		"stop":      r.stop,
		"query":     r.query,
		"raw":       r.raw,
		"mutate":    r.mutate,
		"order":     r.order,
		"serial":    r.serial,
		"send":      r.send,
		"receive":   r.receive,
		"pipeline":  r.pipeline,
		"get":       r.get,
		"explain":   r.explain,
		"log":       r.logged,
		"run":       r.program,
		"copy":      r.copy,
		"remove":    r.remove,
		"link":      r.link,
		"endpoints": r.endpoints,
		"upstream":  r.behave,
		"asked":     r.asked,
		"release":   r.release,
		"forget":    r.forget,
		"no-pairs":  r.withoutPairs,
		"needs":     r.needs,
	}
	needsServer = map[string]bool{}
	for _, name := range []string{"query", "raw", "mutate", "order", "serial", "send", "pipeline", "get", "explain", "log"} {
		needsServer[name] = true
	}
	return steps, needsServer
}

// do does one step.
func (r *run) do(ctx context.Context, step Step) error {
	words, body, err := r.expanded(step)
	if err != nil {
		return err
	}
	if words[0] == "wait" {
		return r.wait(ctx, words[1:], body)
	}
	return r.perform(ctx, words, body)
}

func (r *run) perform(ctx context.Context, words []string, body []Line) error {
	steps, needsServer := r.steps()
	step := steps[words[0]]
	if step == nil {
		return errors.Join(errFinal, fmt.Errorf("unknown step %q", words[0]))
	}
	if needsServer[words[0]] {
		if err := r.ensureServer(ctx); err != nil {
			return errors.Join(errFinal, err)
		}
	}
	return step(ctx, words[1:], body)
}

// wait does "wait [DURATION] STEP": the step again and again, until it succeeds.
func (r *run) wait(ctx context.Context, words []string, body []Line) error {
	patience := waitPatience
	if len(words) > 0 {
		if d, err := time.ParseDuration(words[0]); err == nil {
			patience, words = d, words[1:]
		}
	}
	if len(words) == 0 {
		return errors.New("want: wait [DURATION] STEP")
	}
	return until(ctx, patience, func() error { return r.perform(ctx, words, body) })
}

// expanded is the step with its variables replaced.
func (r *run) expanded(step Step) (words []string, body []Line, err error) {
	first, err := r.expandLine(step.Line)
	if err != nil {
		return nil, nil, err
	}
	for _, line := range step.Body {
		if line, err = r.expandLine(line); err != nil {
			return nil, nil, fmt.Errorf("line %d: %w", line.Number, err)
		}
		body = append(body, line)
	}
	return first.Words, body, nil
}

func (r *run) expandLine(line Line) (Line, error) {
	out := Line{Number: line.Number}
	var err error
	if out.Text, err = expand(line.Text, r.vars); err != nil {
		return out, err
	}
	for _, word := range line.Words {
		if word, err = expand(word, r.vars); err != nil {
			return out, err
		}
		out.Words = append(out.Words, word)
	}
	return out, nil
}

// start does "start [unready] [own-listen] [listen=ADDRESS] [etc=FOLDER]".
func (r *run) start(ctx context.Context, words []string, body []Line) error {
	if r.server != nil {
		return errors.New("a server runs already")
	}
	set, rest, err := parseSettings(words, "listen", "etc")
	if err != nil {
		return err
	}
	l := Launch{Dir: r.Dir, DNS: r.vars["dns"], Admin: r.vars["admin"], Listen: r.vars["dns"]}
	if set["listen"] != "" {
		l.Listen = set["listen"]
	}
	if set["etc"] != "" {
		l.Etc = r.path(set["etc"])
	}
	for _, word := range rest {
		switch word {
		case "unready":
			l.NotReady = true
		case "own-listen":
			l.OwnListen = true
		default:
			return fmt.Errorf("start: unknown word %q", word)
		}
	}
	r.server, err = r.Config.Start(ctx, l)
	return err
}

// stop does "stop": SIGTERM, and an end without complaint.
func (r *run) stop(_ context.Context, _ []string, _ []Line) error {
	if r.server == nil {
		return errors.New("no server runs")
	}
	if err := r.server.Stop(); err != nil {
		return err
	}
	r.server = nil
	return nil
}

// query does "query NAME TYPE …": every name, type and transport by itself, each judged
// by the lines below.
func (r *run) query(ctx context.Context, words []string, body []Line) error {
	questions, err := parseQuestions(words, r.dns)
	if err != nil {
		return errors.Join(errFinal, err)
	}
	for i := range questions {
		q := &questions[i]
		r.noteName(q)
		reply, err := ask(ctx, q)
		r.last = reply
		if err == nil {
			err = checkBody(&check{ctx: ctx, run: r, question: *q, reply: reply}, body)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", q, err)
		}
	}
	return nil
}

// needs does "needs ipv6" or "needs root": the scenario cannot run elsewhere.
func (r *run) needs(_ context.Context, words []string, _ []Line) error {
	switch strings.Join(words, " ") {
	case "ipv6":
		l, err := net.Listen("tcp6", "[::1]:0")
		if err != nil {
			return fmt.Errorf("%w: %w", ErrUnable, err)
		}
		return l.Close()
	case "root":
		if os.Geteuid() != 0 {
			return fmt.Errorf("%w: needs root", ErrUnable)
		}
		return nil
	}
	return errors.New("want: needs ipv6, or needs root")
}

func (r *run) withoutPairs(context.Context, []string, []Line) error {
	r.noPairs = true
	return nil
}
