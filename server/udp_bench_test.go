package server

import (
	"context"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// echoHandler costs as little as a Handler can.
type echoHandler struct{ queries [][]byte }

func (h *echoHandler) Begin(queries [][]byte) { h.queries = queries }
func (h *echoHandler) End()                   {}

func (h *echoHandler) Handle(i int, out []byte, _ *Transport) ([]byte, Verdict) {
	return append(out[:0], h.queries[i]...), Reply
}

func (h *echoHandler) HandleWaiting(_ context.Context, out, query []byte, _ *Transport) ([]byte, Verdict) {
	return append(out[:0], query...), Reply
}

// asker sends queries over UDP and allocates nothing.
type asker struct {
	conn   *net.UDPConn
	server netip.AddrPort
	query  []byte
	reply  []byte
}

func newAsker(t testing.TB, listenOn, host string) *asker {
	l, err := Listen(Config{
		Addresses:  []netip.AddrPort{netip.MustParseAddrPort(listenOn)},
		NewHandler: func() Handler { return &echoHandler{} },
		Workers:    1,
	})
	require.NoError(t, err)
	conn, err := net.ListenUDP("udp", nil)
	require.NoError(t, err)
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(time.Hour))) // a lost datagram fails, late
	t.Cleanup(func() {
		assert.NoError(t, conn.Close())
		assert.NoError(t, l.Close())
	})
	return &asker{
		conn:   conn,
		server: netip.AddrPortFrom(netip.MustParseAddr(host), l.Addresses()[0].Port()),
		query:  query(1, "echo, as long as a question is"),
		reply:  make([]byte, 4096),
	}
}

// ask sends some queries at once and takes their replies.
func (a *asker) ask(t testing.TB, inFlight int) {
	for range inFlight {
		if _, err := a.conn.WriteToUDPAddrPort(a.query, a.server); err != nil {
			t.Fatal(err)
		}
	}
	for range inFlight {
		if _, _, err := a.conn.ReadFromUDPAddrPort(a.reply); err != nil {
			t.Fatal(err)
		}
	}
}

var udpCases = []struct{ name, listenOn, host string }{
	{"IPv4", "127.0.0.1:0", "127.0.0.1"},
	{"IPv4 wildcard", "0.0.0.0:0", "127.0.0.2"},
	{"IPv6", "[::1]:0", "::1"},
	{"IPv6 wildcard", "[::]:0", "::1"},
	{"IPv4 on IPv6 wildcard", "[::]:0", "127.0.0.2"},
}

// The UDP path allocates nothing for a query, client included.
func TestUDPAllocatesNothing(t *testing.T) {
	for _, test := range udpCases {
		t.Run(test.name, func(t *testing.T) {
			asker := newAsker(t, test.listenOn, test.host)
			assert.Zero(t, testing.AllocsPerRun(500, func() { asker.ask(t, 4) }))
		})
	}
}

// BenchmarkUDP is a client and one worker in one process: both ends' system calls count.
func BenchmarkUDP(b *testing.B) {
	for _, test := range udpCases {
		b.Run(test.name, func(b *testing.B) {
			const inFlight = 32
			asker := newAsker(b, test.listenOn, test.host)
			b.ReportAllocs()
			for i := 0; i < b.N; i += inFlight {
				asker.ask(b, inFlight)
			}
		})
	}
}
