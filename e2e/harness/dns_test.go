package harness

import (
	"testing"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"
)

// TestSummary reads answers of the in-process server as one line each.
func TestSummary(t *testing.T) {
	upstream, err := StartUpstream(
		"two.test. 60 IN A 192.0.2.9", "two.test. 60 IN A 192.0.2.10",
		"alias.test. 60 IN CNAME two.test.", "lost.test. 60 IN CNAME gone.test.",
		"_http._tcp.two.test. 60 IN SRV 0 1 8080 two.test.")
	require.NoError(t, err)
	defer upstream.Close()
	for question, want := range map[string]string{
		"two.test A":              "192.0.2.10, 192.0.2.9",
		"TWO.test AAAA":           "NODATA",
		"alias.test A":            "192.0.2.10, 192.0.2.9, CNAME two.test",
		"lost.test A":             "CNAME gone.test, NXDOMAIN",
		"none.test A":             "NXDOMAIN",
		"_http._tcp.two.test SRV": "8080 two.test",
	} {
		q, err := Parse(question)
		require.NoError(t, err)
		for _, q.TCP = range []bool{false, true} {
			reply, err := Resolve(upstream.Addr, q)
			require.NoError(t, err)
			require.Equal(t, want, Summary(reply), q)
		}
	}
}

// TestLint: one fault at a time in an otherwise right reply.
func TestLint(t *testing.T) {
	q := Question{Name: "A.test", Type: "A", Size: 1232}
	right := func() *dns.Msg {
		query, err := q.message()
		require.NoError(t, err)
		reply := new(dns.Msg).SetReply(query)
		reply.Authoritative = true
		reply.SetEdns0(1232, false)
		soa, err := dns.NewRR("test. 5 IN SOA ns.test. h.test. 1 2 3 4 5")
		require.NoError(t, err)
		reply.Ns = append(reply.Ns, soa)
		return reply
	}
	require.NoError(t, Lint(q, right()))
	for name, spoil := range map[string]func(*dns.Msg){
		"lower-cased question": func(m *dns.Msg) { m.Question[0].Name = "a.test." },
		"RA":                   func(m *dns.Msg) { m.RecursionAvailable = true },
		"no AA":                func(m *dns.Msg) { m.Authoritative = false },
		"AA in a failure":      func(m *dns.Msg) { m.Rcode, m.Ns = dns.RcodeServerFailure, nil },
		"no OPT":               func(m *dns.Msg) { m.Extra = nil },
		"no SOA":               func(m *dns.Msg) { m.Ns = nil },
		"SOA with SERVFAIL":    func(m *dns.Msg) { m.Rcode, m.Authoritative = dns.RcodeServerFailure, false },
		"SOA TTL":              func(m *dns.Msg) { m.Ns[0].Header().Ttl = 3600 },
	} {
		reply := right()
		spoil(reply)
		require.Error(t, Lint(q, reply), name)
	}
}

func TestParsePort(t *testing.T) {
	name, number, protocol, err := parsePort("dns:53/UDP")
	require.NoError(t, err)
	require.Equal(t, []any{"dns", int32(53), "UDP"}, []any{name, number, string(protocol)})
	name, number, protocol, err = parsePort(":80")
	require.NoError(t, err)
	require.Equal(t, []any{"", int32(80), "TCP"}, []any{name, number, string(protocol)})
	_, _, _, err = parsePort("80")
	require.Error(t, err)
}
