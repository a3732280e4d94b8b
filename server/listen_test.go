package server

import (
	"context"
	"math/rand/v2"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestListenRefusesBadConfigs(t *testing.T) {
	address := []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0")}
	fixed := netip.MustParseAddrPort("127.0.0.1:5399")
	handler := newScript().newHandler
	for name, test := range map[string]struct {
		config Config
		want   string
	}{
		"no address":     {Config{NewHandler: handler}, "no address"},
		"no handler":     {Config{Addresses: address}, "NewHandler"},
		"workers":        {Config{Addresses: address, NewHandler: handler, Workers: -1}, "-1 workers"},
		"batch":          {Config{Addresses: address, NewHandler: handler, Batch: -1}, "batches of -1"},
		"twice":          {Config{Addresses: []netip.AddrPort{fixed, fixed}, NewHandler: handler}, "127.0.0.1:5399 is listed twice"},
		"negative count": {Config{Addresses: address, NewHandler: handler, Limits: Limits{Waiting: -1}}, "limit Waiting: -1"},
		"negative time":  {Config{Addresses: address, NewHandler: handler, Limits: Limits{IdleTime: -time.Second}}, "limit IdleTime: -1s"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Listen(test.config)
			assert.ErrorContains(t, err, test.want)
		})
	}
}

// C37: TCP is bound for each UDP address, on the same port where that was left open.
func TestListenBindsBothProtocolsC37(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "0.0.0.0:0", "[::1]:0", "[::]:0", "[::ffff:127.0.0.1]:0"} {
		t.Run(address, func(t *testing.T) {
			f := listen(t, onAddress(address))
			bound := f.address()
			assert.NotZero(t, bound.Port())
			assert.Equal(t, netip.MustParseAddrPort(address).Addr().Unmap(), bound.Addr())
			for _, network := range []string{"udp", "tcp"} {
				assert.Equal(t, "echo", dial(t, network, bound).ask(1, "echo"), network)
			}
		})
	}
}

func TestListenOnSeveralAddresses(t *testing.T) {
	f := listen(t, func(c *Config) {
		c.Addresses = []netip.AddrPort{
			netip.MustParseAddrPort("127.0.0.1:0"), netip.MustParseAddrPort("127.0.0.1:0"), netip.MustParseAddrPort("127.0.0.2:0"),
		}
	})
	require.Len(t, f.Addresses(), 3)
	for _, address := range f.Addresses() {
		assert.Equal(t, "echo", dial(t, "udp", address).ask(1, "echo"))
		assert.Equal(t, "echo", dial(t, "tcp", address).ask(1, "echo"))
	}
}

// An address without a host is all that the host has.
func TestListenOnPortAlone(t *testing.T) {
	f := listen(t, func(c *Config) { c.Addresses = []netip.AddrPort{netip.AddrPortFrom(netip.Addr{}, 0)} })
	for _, network := range []string{"udp", "tcp"} {
		assert.Equal(t, "echo", dial(t, network, f.at("127.0.0.1")).ask(1, "echo"))
	}
}

// 0.0.0.0 and [::] with one port are two families, not a contradiction.
func TestListenOnBothWildcards(t *testing.T) {
	port := freePort(t)
	f := listen(t, func(c *Config) {
		c.Addresses = []netip.AddrPort{
			netip.AddrPortFrom(netip.IPv6Unspecified(), port), netip.AddrPortFrom(netip.IPv4Unspecified(), port),
		}
	})
	for _, host := range []string{"127.0.0.1", "::1"} {
		for _, network := range []string{"udp", "tcp"} {
			assert.Equal(t, "echo", dial(t, network, f.at(host)).ask(1, "echo"))
		}
	}
}

// C37: all or nothing, and the error says what failed.
func TestListenFailsAsAWholeC37(t *testing.T) {
	leftovers := goleak.IgnoreCurrent()
	for name, occupy := range map[string]func(*testing.T, netip.AddrPort){
		"TCP": func(t *testing.T, address netip.AddrPort) {
			other, err := net.Listen("tcp", address.String())
			require.NoError(t, err)
			t.Cleanup(func() { _ = other.Close() })
		},
		"UDP": func(t *testing.T, address netip.AddrPort) {
			other, err := net.ListenPacket("udp", address.String())
			require.NoError(t, err)
			t.Cleanup(func() { _ = other.Close() })
		},
		"UDP by sockets that would share": func(t *testing.T, address netip.AddrPort) {
			others, err := openUDP(t.Context(), address, udpOptions{network: "udp4", workers: 2, buffer: 4096})
			require.NoError(t, err)
			for _, other := range others {
				t.Cleanup(func() { _ = other.Close() })
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			taken := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), freePort(t))
			occupy(t, taken)
			free := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.2"), freePort(t))
			config := Config{Addresses: []netip.AddrPort{free, taken}, NewHandler: newScript().newHandler}
			_, err := Listen(config)
			require.Error(t, err)
			assert.ErrorContains(t, err, "listen on "+taken.String()+" over "+name[:3]+": ")
			goleak.VerifyNone(t, leftovers)

			config.Addresses = []netip.AddrPort{free}
			l, err := Listen(config)
			require.NoError(t, err, "the free address was left bound")
			require.NoError(t, l.Close())
		})
	}
}

func TestUsualConnections(t *testing.T) {
	assert.Equal(t, 10_000, usualConnections(0))
	assert.Equal(t, 10_000, usualConnections(1<<20))
	assert.Equal(t, 512, usualConnections(1024))
	assert.Equal(t, 1, usualConnections(1))
}

func TestCloseTwice(t *testing.T) {
	f := listen(t, nil)
	require.NoError(t, f.Close())
	require.NoError(t, f.Close())
	require.NoError(t, f.Shutdown(t.Context()), "all is closed already")
}

// C115: what waits when patience ends is answered as a failed lookup.
func TestShutdownEndsLookupsWhenItsTimeEnds(t *testing.T) {
	f := listen(t, nil)
	clients := []*client{dial(t, "udp", f.address()), dial(t, "tcp", f.address())}
	for _, c := range clients {
		c.send(1, "wait")
	}
	eventually(t, func() bool { return f.script.waiting.Load() == 2 }, "both wait")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	assert.ErrorIs(t, f.Shutdown(ctx), context.Canceled)
	for _, c := range clients {
		_, text := c.receive()
		assert.Equal(t, "ended", text)
	}
}

// A Handler that does not come back cannot keep Shutdown.
func TestShutdownGivesUpOnHandlers(t *testing.T) {
	f := listen(t, nil)
	clients := []*client{dial(t, "udp", f.address()), dial(t, "tcp", f.address())}
	for _, c := range clients {
		c.send(1, "block")
	}
	eventually(t, func() bool { return f.script.handled.Load() == 2 }, "both are held")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	assert.ErrorContains(t, f.Shutdown(ctx), "handlers still wait")
	close(f.script.blocked)
}

// freePort finds a port that neither protocol uses on any address. It is below those that
// systems give to clients, so that none of them takes it before the test does.
func freePort(t *testing.T) uint16 {
	t.Helper()
	for {
		port := uint16(10_000 + rand.IntN(20_000))
		f, err := Listen(Config{
			Addresses:  []netip.AddrPort{netip.AddrPortFrom(netip.Addr{}, port)},
			NewHandler: newScript().newHandler,
			Workers:    1,
		})
		if err == nil {
			require.NoError(t, f.Close())
			return port
		}
		require.ErrorIs(t, err, syscall.EADDRINUSE)
	}
}
