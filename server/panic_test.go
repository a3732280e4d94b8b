package server_test

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/meshdns/meshdns/server"
	"github.com/meshdns/meshdns/sources"
)

// DNS_RULES 38: a query that makes us panic is one SERVFAIL; those that were read with it get
// their answers, and so do those that come later, on either protocol.
func TestPanicsCostOneReplyEach(t *testing.T) {
	w := newWorld(t, settings("c1"))
	w.put("c1", "shop", "api", headless(endpoint("192.0.2.1", "", sources.Ready)))
	leftovers := goleak.IgnoreCurrent()
	answers := server.NewAnswers(server.AnswersConfig{Views: w.publisher})
	l, err := server.Listen(server.Config{
		Addresses: []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0")}, Workers: 1,
		NewHandler: func() server.Handler { return server.BreakShuffle(answers.NewHandler()) },
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()); goleak.VerifyNone(t, leftovers) })
	const count = 30
	for _, network := range []string{"udp", "tcp"} {
		conn, err := net.Dial(network, l.Addresses()[0].String())
		require.NoError(t, err)
		defer func() { require.NoError(t, conn.Close()) }()
		require.NoError(t, conn.SetDeadline(time.Now().Add(20*time.Second)))
		c := &dns.Conn{Conn: conn}
		for i := range count {
			typ := dns.TypeTXT
			if i%3 == 0 {
				typ = dns.TypeA
			}
			require.NoError(t, c.WriteMsg(new(dns.Msg).SetQuestion("api.shop.svc.cluster.c1.", typ)))
		}
		rcodes := make(map[int]int)
		for range count {
			reply, err := c.ReadMsg()
			require.NoError(t, err)
			rcodes[reply.Rcode]++
		}
		require.Equal(t, map[int]int{dns.RcodeSuccess: count - count/3, dns.RcodeServerFailure: count / 3}, rcodes, network)
	}
	require.EqualValues(t, 2*count/3, answers.Counters().Panics())
}
