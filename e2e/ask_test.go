package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"

	"github.com/meshdns/meshdns/e2e/harness"
)

// server is something that can be asked, and perhaps explain itself.
type server struct {
	addr    string
	explain func(name, kind string) string // nil when it cannot
	caches  bool                           // not the authority: its TTLs count down
	process *harness.Process               // nil when nobody asks
}

func asked(m *harness.MeshdnsServer) server { return server{addr: m.DNS, explain: m.Explain} }

// eventually waits until "NAME TYPE" is answered with want, a harness.Summary, first over
// UDP; then the same must hold over TCP. Every reply, also those before, must keep the
// rules that all replies keep.
func (s server) eventually(t *testing.T, question, want string) {
	t.Helper()
	q := parse(t, question)
	err := harness.Poll(t.Context(), settles, func() error { return s.check(q, want) })
	if err == nil {
		q.TCP = true
		err = s.check(q, want)
	}
	if err != nil {
		s.fail(t, q, err)
	}
}

// all is eventually for lines of "NAME TYPE = WANT".
func (s server) all(t *testing.T, lines ...string) {
	t.Helper()
	for _, line := range lines {
		question, want, found := strings.Cut(line, " = ")
		require.True(t, found, "line %q is not QUESTION = WANT", line)
		s.eventually(t, question, want)
	}
}

// fail ends the test with what the server says of the name.
func (s server) fail(t *testing.T, q harness.Question, err error) {
	t.Helper()
	if s.explain == nil {
		t.Fatal(err)
	}
	t.Fatalf("%v\nexplain: %s", err, s.explain(q.Name, q.Type))
}

// check asks once and compares.
func (s server) check(q harness.Question, want string) error {
	reply, err := harness.Resolve(s.addr, q)
	if err != nil {
		return harness.Final(err)
	}
	if err := harness.Lint(q, reply); err != nil && !s.caches {
		return harness.Final(fmt.Errorf("%s: %w\n%s", q, err, reply))
	}
	if got := harness.Summary(reply); got != canonical(want) {
		return fmt.Errorf("%s\n got: %s\nwant: %s", q, got, canonical(want))
	}
	return nil
}

// ask asks once; the reply must come and keep the rules.
func (s server) ask(t *testing.T, question string) *dns.Msg {
	t.Helper()
	q := parse(t, question)
	reply, err := harness.Resolve(s.addr, q)
	require.NoError(t, err)
	require.NoError(t, harness.Lint(q, reply), "%s", reply)
	return reply
}

// exactly waits until the targets of an SRV question are want, and asks each of them:
// target → its addresses. No two clusters' hosts may be taken for one another (C61, C68).
func (s server) exactly(t *testing.T, question string, want map[string]string) {
	t.Helper()
	var records []string
	for target := range want { // "port name"
		records = append(records, target)
	}
	s.eventually(t, question, strings.Join(records, ", "))
	for target, addresses := range want {
		_, name, _ := strings.Cut(target, " ")
		s.eventually(t, name+" A", addresses)
	}
	s.glue(t, question)
}

// glue checks that the addresses that come with SRV records are those that their targets
// have (C68).
func (s server) glue(t *testing.T, question string) {
	t.Helper()
	reply := s.ask(t, question)
	glued := map[string][]string{}
	for _, rr := range reply.Extra {
		if a, ok := rr.(*dns.A); ok {
			glued[a.Hdr.Name] = append(glued[a.Hdr.Name], a.A.String())
		}
	}
	for name, addresses := range glued {
		slices.Sort(addresses)
		require.Equal(t, harness.Addresses(s.ask(t, name+" A")), addresses, "glue of %s", name)
	}
}

func parse(t *testing.T, question string) harness.Question {
	t.Helper()
	q, err := harness.Parse(question)
	require.NoError(t, err)
	return q
}

// canonical puts an expected summary into the order of real ones.
func canonical(want string) string {
	parts := strings.Split(want, ", ")
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}
