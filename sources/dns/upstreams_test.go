package dns

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	mdns "github.com/miekg/dns"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// testAsker asks servers with a whole default budget.
func testAsker(t testing.TB, servers ...netip.AddrPort) (*asker, *fakeClock) {
	t.Helper()
	clock := newFakeClock()
	cfg := Config{Clock: clock}
	for _, s := range servers {
		cfg.Upstreams = append(cfg.Upstreams, s.String())
	}
	ups, err := newUpstreams(cfg.withDefaults())
	require.NoError(t, err)
	return &asker{client: NewClient(ClientConfig{}), upstreams: ups}, clock
}

// C151, FAULTS 16: the next server is asked, and all of it fits the budget.
func TestAskC151NextServer(t *testing.T) {
	good := newTestServer(t)
	good.on("web.example", "A", rrs("web.example. 10 IN A 192.0.2.1"))
	hole := rawServer(t, func(net.PacketConn, net.Addr, *mdns.Msg) {})
	liar := func(b behaviour) netip.AddrPort {
		s := newTestServer(t)
		s.on("web.example", "A", b)
		return s.addr
	}
	cases := map[string][]netip.AddrPort{
		"SERVFAIL":                 {liar(rcode(mdns.RcodeServerFailure))},
		"REFUSED":                  {liar(rcode(mdns.RcodeRefused))},
		"timeout":                  {hole},
		"two timeouts":             {hole, rawServer(t, func(net.PacketConn, net.Addr, *mdns.Msg) {})},
		"nobody listens":           {deadServer(t)},
		"malformed":                {liar(countsLie(9, rrs("web.example. 9 IN A 192.0.2.66")))},
		"truncated, TCP is silent": {liar(overUDP(withTC(rrs()), silence))},
		"lame":                     {liar(rrs("-example. 60 IN NS ns.example."))},
		"empty without SOA":        {liar(rrs())},
		"loop":                     {liar(rrs("web.example. 9 IN CNAME web.example."))},
	}
	for name, before := range cases {
		t.Run(name, func(t *testing.T) {
			ask, _ := testAsker(t, append(before, good.addr)...)
			ctx, cancel := context.WithTimeout(context.Background(), DefaultTimeout)
			defer cancel()
			start := time.Now()
			a, err := ask.ask(ctx, webA)
			require.NoError(t, err)
			assert.Equal(t, addrs("192.0.2.1"), a.addrs)
			assert.Less(t, time.Since(start), 3*time.Second)
		})
	}
}

func TestAskAllFail(t *testing.T) {
	server := newTestServer(t)
	server.on("web.example", "A", rcode(mdns.RcodeServerFailure))
	dead := deadServer(t)
	ask, _ := testAsker(t, server.addr, dead)
	_, err := ask.ask(testContext(t), webA)
	require.Error(t, err)
	assert.Contains(t, err.Error(), "web.example A: "+server.addr.String()+": SERVFAIL; "+dead.String()+": ")
	assert.NotContains(t, err.Error(), "\n")
}

// A server that gave no reply is asked after the others for a while.
func TestAskSilentServerGoesLast(t *testing.T) {
	good := newTestServer(t)
	good.on("web.example", "A", rrs("web.example. 10 IN A 192.0.2.1"))
	dead := deadServer(t)
	ask, clock := testAsker(t, dead, good.addr)
	order := func() []netip.AddrPort {
		t.Helper()
		servers, err := ask.upstreams.servers()
		require.NoError(t, err)
		return servers
	}
	assert.Equal(t, []netip.AddrPort{dead, good.addr}, order())
	_, err := ask.ask(testContext(t), webA)
	require.NoError(t, err)
	assert.Equal(t, []netip.AddrPort{good.addr, dead}, order())
	clock.advance(penalty)
	assert.Equal(t, []netip.AddrPort{dead, good.addr}, order())

	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = ask.ask(ctx, webA)
	require.Error(t, err)
	assert.Equal(t, []netip.AddrPort{dead, good.addr}, order(), "an asker that went away says nothing about servers")
}

// C133: what makes no list of servers is an error at the start.
func TestUpstreamsC133BadLists(t *testing.T) {
	for _, list := range [][]string{{}, {""}, {"192.0.2.1:0"}, {"host:53"}, {"192.0.2.1", "nonsense"}} {
		_, err := New(Config{Upstreams: list})
		require.ErrorContains(t, err, "upstreams: ", "%q", list)
	}
	source, err := New(Config{Upstreams: []string{"192.0.2.1"}})
	require.NoError(t, err)
	require.Error(t, source.SetUpstreams([]string{"192.0.2.1:0"}))
	servers, err := source.upstreams.servers()
	require.NoError(t, err)
	assert.Equal(t, []netip.AddrPort{netip.MustParseAddrPort("192.0.2.1:53")}, servers, "unchanged after an error")
}

func TestUpstreamsResolvConf(t *testing.T) {
	cases := []struct {
		name, content string
		want          []string
		err           string
	}{
		{"plain", "# comment\nsearch example\nnameserver 192.0.2.1\n\nnameserver\t2001:db8::1\noptions ndots:5 rotate\n", []string{"192.0.2.1:53", "[2001:db8::1]:53"}, ""},
		{"twice the same", "nameserver 192.0.2.1\nnameserver 192.0.2.2\nnameserver 192.0.2.1\n", []string{"192.0.2.1:53", "192.0.2.2:53"}, ""},
		{"a zone", "nameserver fe80::1%lo\n", []string{"[fe80::1%lo]:53"}, ""},
		{"a bad one beside a good one", "nameserver nonsense\nnameserver 192.0.2.1\n", []string{"192.0.2.1:53"}, ""},
		{"C133: none", "search example\n", nil, "no nameserver lines"},
		{"C133: empty", "", nil, "no nameserver lines"},
		{"C133: without an address", "nameserver\n", nil, "no nameserver lines"},
		{"C133: no address", "nameserver ns.example\n", nil, `nameserver "ns.example" is no IP address`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "resolv.conf")
			require.NoError(t, os.WriteFile(path, []byte(c.content), 0o600))
			ups, err := newUpstreams(Config{ResolvConf: path}.withDefaults())
			require.NoError(t, err)
			servers, err := ups.servers()
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				assert.Contains(t, err.Error(), path)
				return
			}
			require.NoError(t, err)
			var got []string
			for _, s := range servers {
				got = append(got, s.String())
			}
			assert.Equal(t, c.want, got)
		})
	}
}

// A file that goes away, or is emptied for a moment, leaves the last good servers.
func TestUpstreamsKeepLastGood(t *testing.T) {
	path := filepath.Join(t.TempDir(), "resolv.conf")
	write := func(content string) { require.NoError(t, os.WriteFile(path, []byte(content), 0o600)) }
	lines := &logLines{}
	ups, err := newUpstreams(Config{ResolvConf: path, Upstreams: []string{"192.0.2.9", "system"},
		Logger: slog.New(slog.NewTextHandler(lines, nil))}.withDefaults())
	require.NoError(t, err)
	expect := func(changed bool, want ...string) {
		t.Helper()
		assert.Equal(t, changed, ups.reload())
		servers, err := ups.servers()
		require.NoError(t, err)
		var got []string
		for _, s := range servers {
			got = append(got, s.Addr().String())
		}
		assert.Equal(t, want, got)
	}
	expect(false, "192.0.2.9")
	write("nameserver 192.0.2.1\n")
	expect(true, "192.0.2.9", "192.0.2.1")
	expect(false, "192.0.2.9", "192.0.2.1")
	write("")
	expect(false, "192.0.2.9", "192.0.2.1")
	require.NoError(t, os.Remove(path))
	expect(false, "192.0.2.9", "192.0.2.1")
	expect(false, "192.0.2.9", "192.0.2.1")
	write("nameserver 192.0.2.1\n")
	expect(false, "192.0.2.9", "192.0.2.1")
	write("nameserver 192.0.2.2\n")
	expect(true, "192.0.2.9", "192.0.2.2")
	assert.Len(t, lines.with("nameservers not read"), 3, "missing, empty, missing: a line each, not one each time")
}
