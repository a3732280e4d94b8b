package scenarios

import (
	"net/netip"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// newUpstream starts an upstream that behaves as text says.
func newUpstream(t *testing.T, text ...string) *upstream {
	t.Helper()
	u, err := startUpstream(t.Context(), "", NewPorts())
	require.NoError(t, err)
	t.Cleanup(u.stop)
	setBehaviour(t, u, text...)
	return u
}

func setBehaviour(t *testing.T, u *upstream, text ...string) {
	t.Helper()
	var body []Line
	for _, line := range text {
		words, bare, err := split(line)
		require.NoError(t, err)
		body = append(body, Line{Words: words, Text: bare})
	}
	b, err := parseBehaviour(body)
	require.NoError(t, err)
	u.behave(b)
}

// askUpstream asks and returns the reply, nil for none within the time that is given.
func askUpstream(t *testing.T, u *upstream, transport, name string, qtype uint16, patience time.Duration) *dns.Msg {
	t.Helper()
	query := new(dns.Msg).SetQuestion(name, qtype)
	client := &dns.Client{Net: transport, Timeout: patience}
	m, _, err := client.Exchange(query, u.address())
	if err != nil && m == nil {
		return nil
	}
	require.NoError(t, err)
	return m
}

func TestUpstreamAnswers(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	u := newUpstream(t,
		"record a.example. 30 IN CNAME b.example.",
		"record b.example. 60 IN A 203.0.113.1",
		"record x.example. 60 IN CNAME gone.example.",
		"soa example. 7",
		"on down.example A servfail",
		"on cut.example A udp truncate 1",
		"record cut.example. 5 IN A 203.0.113.1",
		"record cut.example. 5 IN A 203.0.113.2",
		"on half.example * alias-only",
		"record half.example. 5 IN CNAME b.example.",
	)
	defer u.stop()
	m := askUpstream(t, u, "udp", "a.example.", dns.TypeA, replyPatience)
	require.Len(t, m.Answer, 2)
	assert.True(t, m.RecursionAvailable)
	assert.False(t, m.Authoritative)
	m = askUpstream(t, u, "udp", "x.example.", dns.TypeA, replyPatience)
	assert.Equal(t, dns.RcodeNameError, m.Rcode)
	assert.Len(t, m.Answer, 1)
	assert.Len(t, m.Ns, 1)
	m = askUpstream(t, u, "tcp", "b.example.", dns.TypeAAAA, replyPatience)
	assert.Equal(t, dns.RcodeSuccess, m.Rcode)
	assert.Equal(t, uint32(7), m.Ns[0].Header().Ttl)
	assert.Equal(t, dns.RcodeServerFailure, askUpstream(t, u, "udp", "down.example.", dns.TypeA, replyPatience).Rcode)
	m = askUpstream(t, u, "udp", "cut.example.", dns.TypeA, replyPatience)
	assert.True(t, m.Truncated)
	assert.Len(t, m.Answer, 1)
	assert.Len(t, askUpstream(t, u, "tcp", "cut.example.", dns.TypeA, replyPatience).Answer, 2)
	assert.Len(t, askUpstream(t, u, "udp", "half.example.", dns.TypeA, replyPatience).Answer, 1)

	found, err := u.matching([]string{"cut.example", "A", "tcp"})
	require.NoError(t, err)
	assert.Len(t, found, 1)
	all, err := u.matching(nil)
	require.NoError(t, err)
	assert.Len(t, all, 7)
	assert.NoError(t, checkAsked(all, Line{Words: []string{"ids", "distinct"}}))
	assert.Error(t, checkAsked(append(found, found...), Line{Words: []string{"ids", "distinct"}}))
	assert.Error(t, checkAsked(all, Line{Words: []string{"count", "1"}}))
}

func TestUpstreamHolds(t *testing.T) {
	u := newUpstream(t, "record a.example. 30 IN A 203.0.113.1", "on a.example A hold answer")
	got := make(chan *dns.Msg)
	go func() {
		query := new(dns.Msg).SetQuestion("a.example.", dns.TypeA)
		m, _, _ := (&dns.Client{Timeout: replyPatience}).Exchange(query, u.address())
		got <- m
	}()
	require.NoError(t, until(t.Context(), replyPatience, func() error {
		found, err := u.matching(nil)
		if err != nil {
			return err
		}
		return wantSpan("questions", "1", int64(len(found)))
	}))
	select {
	case <-got:
		t.Fatal("the reply was not held")
	default:
	}
	u.release()
	require.NotNil(t, <-got)
}

func TestUpstreamFalsehoods(t *testing.T) {
	u := newUpstream(t, "record a.example. 30 IN A 203.0.113.1", "on * * wrong-id wrong-question garbage answer")
	q := testQuestion("a.example.", dns.TypeA)
	packet, err := q.packet()
	require.NoError(t, err)
	c, err := dial(t.Context(), "udp", netip.MustParseAddrPort(u.address()))
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, c.send(packet))
	var wires [][]byte
	for range 5 {
		wire, err := c.receive()
		require.NoError(t, err)
		wires = append(wires, wire)
	}
	assert.NotEqual(t, packet[:2], wires[0][:2])
	assert.Equal(t, packet[:2], wires[1][:2])
	assert.Contains(t, string(wires[1]), "\x05other")
	assert.Len(t, wires[2], 2)
	_, err = newReply(packet, wires[4], q.server, "udp", 0)
	assert.NoError(t, err)
}

func TestUpstreamCuts(t *testing.T) {
	var text []string
	for i := range 60 {
		text = append(text, "record big.example. 5 IN A "+netip.AddrFrom4([4]byte{203, 0, 113, byte(i)}).String())
	}
	u := newUpstream(t, append(text, "on * * cut")...)
	q := testQuestion("big.example.", dns.TypeA)
	packet, err := q.packet()
	require.NoError(t, err)
	r, err := exchange(t.Context(), "udp", netip.MustParseAddrPort(u.address()), packet)
	require.Error(t, err)
	assert.Len(t, r.wire, 512)
	setBehaviour(t, u, append(text, "on * * cut-border")...)
	r, err = exchange(t.Context(), "udp", netip.MustParseAddrPort(u.address()), packet)
	require.ErrorContains(t, err, "record 31", "whole records, fewer than the count says")
	assert.Equal(t, byte(60), r.wire[7])
	assert.LessOrEqual(t, len(r.wire), 512)
}

func TestBehaviourErrors(t *testing.T) {
	for _, text := range []string{
		"nosuch", "record nonsense", "soa example", "on a A", "on a A nosuch", "on a A hold", "on a A truncate x", "on a NOTYPE answer",
	} {
		words, bare, err := split(text)
		require.NoError(t, err)
		_, err = parseBehaviour([]Line{{Number: 4, Words: words, Text: bare}})
		assert.ErrorContains(t, err, "line 4", text)
	}
}
