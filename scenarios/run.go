package scenarios

import (
	"context"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/miekg/dns"
)

// waitPatience is how long "wait" tries unless the script says otherwise: changes show
// within milliseconds, a machine that is busy with -race takes seconds.
const waitPatience = 20 * time.Second

// logTail is how many of the server's last log lines a failure shows.
const logTail = 25

// Config is what scenarios run with.
type Config struct {
	// Binary is the built program, for the run step and for servers.
	Binary string
	// Start starts the server under test. It may return a server beside an error, whose
	// log is then shown. Nil starts Binary.
	Start func(ctx context.Context, l Launch) (Server, error)
	Ports *Ports
	Dir   string // an empty folder for the scenario's files
}

// run is one scenario at work. One goroutine uses it.
type run struct {
	Config
	script    *Script
	vars      map[string]string
	server    Server // nil while none runs
	dns       netip.AddrPort
	upstreams map[string]*upstream
	names     []string          // own names that were asked, for the last check
	noPairs   bool              // the script switched that check off
	serials   map[string]uint32 // by zone
	flight    []inFlight
	last      *reply // of the step at work, for failures
}

// Run runs a script. A failure's text says where in the script, what was wanted, the
// whole last reply and the end of the server's log. An error that errors.Is
// ErrUnable says that this machine lacks something the script needs.
func Run(ctx context.Context, c Config, s *Script) error {
	if c.Start == nil {
		c.Start = func(ctx context.Context, l Launch) (Server, error) { return startProcess(ctx, c.Binary, l) }
	}
	r := &run{Config: c, script: s, upstreams: map[string]*upstream{}, serials: map[string]uint32{}}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer r.cleanUp()
	if err := r.prepare(ctx); err != nil {
		return fmt.Errorf("%s: %w", s.Path, err)
	}
	for _, step := range s.Steps {
		r.last = nil
		if err := r.do(ctx, step); err != nil {
			return r.failure(step, err)
		}
	}
	return r.finish(ctx)
}

// failure puts together what a reader needs to see.
func (r *run) failure(step Step, err error) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s:%d: %s\n", r.script.Path, step.Number, step.Text)
	if r.last != nil {
		fmt.Fprintf(&b, "\nthe last reply:\n%s", r.last)
	}
	if r.server != nil {
		fmt.Fprintf(&b, "\nthe end of the server's log:\n%s\n", tail(r.server.Log(), logTail))
	}
	return fmt.Errorf("%s:%d: %w\n\n%s", filepath.Base(r.script.Path), step.Number, err, b.String())
}

// tail is the last lines of a text, from a data race's report on where there is one.
func tail(text string, lines int) string {
	if at := strings.Index(text, "WARNING: DATA RACE"); at >= 0 {
		return text[at:]
	}
	all := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// prepare gives the scenario its ports, upstreams and files.
func (r *run) prepare(ctx context.Context) error {
	dnsPort, err := r.Ports.Take()
	if err != nil {
		return err
	}
	adminPort, err := r.Ports.Take()
	if err != nil {
		return err
	}
	r.dns = netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), uint16(dnsPort))
	r.vars = map[string]string{
		"dns":     r.dns.String(),
		"dnsport": strconv.Itoa(dnsPort),
		"admin":   fmt.Sprintf("127.0.0.1:%d", adminPort),
		"work":    r.Dir,
	}
	for name, address := range r.script.upstreams() {
		u, err := startUpstream(ctx, address, r.Ports)
		if err != nil {
			return err
		}
		r.upstreams[name] = u
		r.vars[name] = u.address()
	}
	return r.layOut()
}

// ensureServer starts the server where none runs yet.
func (r *run) ensureServer(ctx context.Context) error {
	if r.server != nil {
		return r.server.Running()
	}
	return r.start(ctx, nil, nil)
}

// finish checks what must hold at the end of every scenario and stops the server.
func (r *run) finish(ctx context.Context) error {
	if r.server == nil {
		return nil
	}
	last := Step{Line: Line{Number: r.script.Steps[len(r.script.Steps)-1].Number, Text: "(after the last step)"}}
	for _, check := range []func(context.Context) error{r.checkPairs, r.checkPanics} {
		if err := check(ctx); err != nil {
			return r.failure(last, err)
		}
	}
	if err := r.server.Stop(); err != nil {
		return r.failure(last, err)
	}
	r.server = nil
	return nil
}

// checkPairs: the rcodes of A and AAAA never differ, for no name that the scenario asked
// (DNS_RULES 5, C166, C167).
func (r *run) checkPairs(ctx context.Context) error {
	if r.noPairs {
		return nil
	}
	for _, name := range r.names {
		var rcodes [2]int
		for i, qtype := range []uint16{dns.TypeA, dns.TypeAAAA} {
			q := question{name: name, qtype: qtype, class: dns.ClassINET, transport: "udp", server: r.dns, rd: true, edns: true, size: ednsSize}
			reply, err := ask(ctx, &q)
			r.last = reply
			if err != nil {
				return fmt.Errorf("asking A and AAAA of %s: %w", name, err)
			}
			rcodes[i] = reply.msg.Rcode
		}
		if rcodes[0] != rcodes[1] {
			return fmt.Errorf("rule 5, C167: %s: A says %s, AAAA says %s", name, rcodeText(rcodes[0]), rcodeText(rcodes[1]))
		}
	}
	return nil
}

// checkPanics: no query has ended in a panic (DNS_RULES 38).
func (r *run) checkPanics(ctx context.Context) error {
	return r.wantMetric(ctx, "meshdns_panics_total", "0")
}

// cleanUp ends what a failed scenario left running.
func (r *run) cleanUp() {
	r.endFlight()
	if r.server != nil {
		_ = r.server.Stop() // the scenario has failed already
	}
	for _, u := range r.upstreams {
		u.stop()
	}
}

// noteName remembers a name for checkPairs.
func (r *run) noteName(q *question) {
	if q.class == dns.ClassINET && q.opcode == dns.OpcodeQuery && q.server == r.dns && !slices.Contains(r.names, q.name) {
		r.names = append(r.names, q.name)
	}
}
