package server_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/meshdns/meshdns/metrics"
	"github.com/meshdns/meshdns/server"
	"github.com/meshdns/meshdns/sources"
)

// DNS_RULES 37, C182: names that do not exist leave nothing behind.

// traces is what a process has that could grow with the names that it is asked for.
type traces struct {
	heap       int64 // bytes in use
	stacks     int64
	goroutines int
	series     int // of metrics
}

func tracesOf(t *testing.T, registry *prometheus.Registry) traces {
	for range 3 { // pools need two
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	families, err := registry.Gather()
	require.NoError(t, err)
	found := traces{heap: int64(m.HeapAlloc), stacks: int64(m.StackInuse), goroutines: runtime.NumGoroutine()}
	for _, family := range families {
		found.series += len(family.GetMetric())
	}
	return found
}

// flat fails where something has grown. 256 KiB: less than a bit for each of a million names.
func flat(t *testing.T, before, after traces) {
	t.Helper()
	t.Logf("before %+v, after %+v", before, after)
	assert.Less(t, after.heap-before.heap, int64(256<<10), "heap")
	assert.LessOrEqual(t, after.stacks-before.stacks, int64(256<<10), "stacks")
	assert.LessOrEqual(t, after.goroutines, before.goroutines, "goroutines")
	assert.Equal(t, before.series, after.series, "metric series")
}

// absentNames writes questions for random names in every place where a name could be.
type absentNames struct {
	random *rand.Rand
	packet []byte
}

var absentForms = []string{
	"%s.mesh", "a.%s.mesh", "_http._tcp.%s.mesh", "%s.shop.svc.cluster.global", "api.%s.svc.cluster.global", "%s.api.shop.svc.cluster.global",
	"%s.c1.api.shop.svc.cluster.global", "_%s._tcp.api.shop.svc.cluster.global", "%s.cluster.global", "api.shop.svc.cluster.%s", "%s.shop.svc.cluster.c1",
	"%s.in-addr.arpa", "%s", "www.%s.example",
}

func newAbsentNames() *absentNames { return &absentNames{random: rand.New(rand.NewPCG(37, 182))} }

// next is a question that is valid until the next one.
func (a *absentNames) next() []byte {
	label := fmt.Sprintf("rnd%x", a.random.Uint64())
	name := fmt.Sprintf(absentForms[a.random.IntN(len(absentForms))], label)
	packet := append(a.packet[:0], byte(a.random.Uint32()), byte(a.random.Uint32()), 1, 0, 0, 1, 0, 0, 0, 0, 0, 0)
	for start, i := 0, 0; i <= len(name); i++ {
		if i == len(name) || name[i] == '.' {
			packet = append(append(packet, byte(i-start)), name[start:i]...)
			start = i + 1
		}
	}
	// A, AAAA, SRV, TXT, ANY, and one of those that metrics call "other".
	typ := []uint16{1, 28, 33, 16, 255, uint16(1000 + a.random.IntN(50_000))}[a.random.IntN(6)]
	packet = binary.BigEndian.AppendUint16(append(packet, 0), typ)
	a.packet = binary.BigEndian.AppendUint16(packet, 1)
	return a.packet
}

// absentWorld has names, an alias whose target is resolved when it is asked for, and counters.
func absentWorld(t *testing.T) (*world, *prometheus.Registry) {
	w := newWorld(t, settings("c1", "c2"))
	w.put("c1", "shop", "api", headless(endpoint("192.0.2.1", "web-0", sources.Ready)))
	w.put("c2", "shop", "api", headless(endpoint("192.0.2.2", "web-0", sources.Ready)))
	w.put("c1", "shop", "out", alias("www.example.com"))
	registry := prometheus.NewRegistry()
	registry.MustRegister(metrics.NewServer(w.answers.Counters()))
	require.NoError(t, w.answers.SetRateLimit(limitOf(server.MostPerSecond, 2)))
	return w, registry
}

func TestAbsentNamesLeaveNothingC182(t *testing.T) {
	names := 1_000_000
	if raceBuilt { // which is thirty times slower
		names = 100_000
	}
	w, registry := absentWorld(t)
	handler, absent := w.answers.NewHandler(), newAbsentNames()
	out, batch := make([]byte, 0, 65535), make([][]byte, 32)
	ask := func(n int) {
		for range n / len(batch) {
			for i := range batch {
				batch[i] = append(batch[i][:0], absent.next()...)
			}
			handler.Begin(batch)
			for i := range batch {
				reply, verdict := handler.Handle(i, out, udp)
				if verdict != server.Reply || reply[3]&15 == 0 && binary.BigEndian.Uint16(reply[6:]) > 0 {
					require.Failf(t, "no absent name", "%x: %d %x", batch[i], verdict, reply)
				}
			}
			handler.End()
		}
	}
	ask(20_000) // each rcode and type has been counted once
	before := tracesOf(t, registry)
	ask(names)
	flat(t, before, tracesOf(t, registry))
	assert.Empty(t, w.publisher.TakeAsked(), "no target is wanted for a name that does not exist")
}

func TestAbsentNamesOverUDPLeaveNothingC182(t *testing.T) {
	names := 100_000
	if testing.Short() {
		names = 10_000
	}
	w, registry := absentWorld(t)
	leftovers := goleak.IgnoreCurrent()
	l, err := server.Listen(server.Config{
		Addresses: []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0")}, NewHandler: w.answers.NewHandler,
	})
	require.NoError(t, err)
	conn, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(l.Addresses()[0]))
	require.NoError(t, err)
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(5*time.Minute))) // a lost datagram fails, late
	absent, reply := newAbsentNames(), make([]byte, 4096)
	ask := func(n int) {
		const inFlight = 50
		for range n / inFlight {
			for range inFlight {
				_, err := conn.Write(absent.next())
				require.NoError(t, err)
			}
			for range inFlight {
				_, err := conn.Read(reply)
				require.NoError(t, err)
			}
		}
	}
	ask(10_000)
	before := tracesOf(t, registry)
	ask(names)
	flat(t, before, tracesOf(t, registry))
	require.NoError(t, conn.Close())
	require.NoError(t, l.Close())
	goleak.VerifyNone(t, leftovers)
}
