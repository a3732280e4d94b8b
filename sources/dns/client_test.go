package dns

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	mdns "github.com/miekg/dns"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/meshdns/meshdns/names"
)

var webA = Question{names.MustParse("web.example"), mdns.TypeA}

// Rule 39, FAULTS 16: wrong ID first, garbage, another question, another source.
func TestExchangeIgnoresWhatIsNotOurs(t *testing.T) {
	other, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	defer other.Close()
	server := rawServer(t, func(conn net.PacketConn, from net.Addr, req *mdns.Msg) {
		reply := func(change func(*mdns.Msg)) []byte {
			msg := new(mdns.Msg)
			msg.SetReply(req)
			rr, _ := mdns.NewRR("web.example. 10 IN A 198.51.100.66")
			msg.Answer = []mdns.RR{rr}
			change(msg)
			return packed(msg)
		}
		wrong := [][]byte{
			{}, {1}, []byte("garbage that is longer than a header"),
			binary.BigEndian.AppendUint16(nil, req.Id),
			append(binary.BigEndian.AppendUint16(nil, req.Id), 0x80, 0, 0, 9, 0, 9, 0, 9, 0, 9, 0xc0),
			reply(func(m *mdns.Msg) { m.Id++ }),
			reply(func(m *mdns.Msg) { m.Response = false }),
			reply(func(m *mdns.Msg) { m.Opcode = mdns.OpcodeStatus }),
			reply(func(m *mdns.Msg) { m.Question[0].Name = "wed.example." }),
			reply(func(m *mdns.Msg) { m.Question[0].Qtype = mdns.TypeAAAA }),
			reply(func(m *mdns.Msg) { m.Question[0].Qclass = mdns.ClassCHAOS }),
			reply(func(m *mdns.Msg) { m.Question = append(m.Question, m.Question[0]) }),
			reply(func(m *mdns.Msg) { m.Question = nil }),
		}
		for _, raw := range wrong {
			_, _ = conn.WriteTo(raw, from)
		}
		_, _ = other.WriteTo(reply(func(*mdns.Msg) {}), from)
		good := rrs("web.example. 10 IN A 192.0.2.1")(req, "udp")
		_, _ = conn.WriteTo(good, from)
	})
	reply, err := NewClient(ClientConfig{Timeout: patience}).Exchange(testContext(t), webA, server)
	require.NoError(t, err)
	assert.Equal(t, []Record{{"web.example", "A", 10, "192.0.2.1"}}, reply.Answer())
	assert.Equal(t, "NOERROR", reply.Rcode())
	assert.Equal(t, "udp", reply.Proto)
	assert.Equal(t, server, reply.Server)
	assert.Positive(t, reply.Took)
}

func TestExchangeOnlyWrongDatagramsIsTimeout(t *testing.T) {
	server := rawServer(t, func(conn net.PacketConn, from net.Addr, req *mdns.Msg) {
		req.Id ^= 0xffff
		_, _ = conn.WriteTo(rrs("web.example. 10 IN A 198.51.100.66")(req, "udp"), from)
	})
	_, err := NewClient(ClientConfig{Timeout: 50 * time.Millisecond}).Exchange(testContext(t), webA, server)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

// C181: IDs from crypto randomness, ports vary.
func TestExchangeC181IDsAndPortsAreRandom(t *testing.T) {
	server := newTestServer(t)
	server.on("web.example", "A", rrs("web.example. 10 IN A 192.0.2.1"))
	client := NewClient(ClientConfig{Timeout: patience})
	for range 1000 {
		_, err := client.Exchange(testContext(t), webA, server.addr)
		require.NoError(t, err)
	}
	ids, ports, ascending := make(map[uint16]bool), make(map[uint16]bool), 0
	all := server.queries()
	for i, q := range all {
		ids[q.msg.Id], ports[q.from.Port()] = true, true
		if i > 0 && q.msg.Id > all[i-1].msg.Id {
			ascending++
		}
	}
	assert.Greater(t, len(ids), 950, "1,000 of 65,536: about 8 collisions are expected")
	assert.Greater(t, len(ports), 500, "a socket for each query")
	assert.InDelta(t, 500, ascending, 120, "IDs follow no order")
}

// Rule 39, C44: RD and OPT of 1,232 bytes, never DO, nothing else.
func TestExchangeSendsPlainQuery(t *testing.T) {
	server := newTestServer(t)
	server.on("web.example", "A", rrs("web.example. 10 IN A 192.0.2.1"))
	_, err := NewClient(ClientConfig{}).Exchange(testContext(t), webA, server.addr)
	require.NoError(t, err)
	q := server.queries()[0].msg
	assert.True(t, q.RecursionDesired)
	assert.False(t, q.CheckingDisabled || q.AuthenticatedData || q.Zero)
	require.NotNil(t, q.IsEdns0())
	assert.EqualValues(t, 1232, q.IsEdns0().UDPSize())
	assert.False(t, q.IsEdns0().Do())
	assert.Empty(t, q.IsEdns0().Option)
}

// RFC 6891 section 6.2.2: a server that does not know OPT is asked without.
func TestExchangeWithoutEDNSWhereItIsNotKnown(t *testing.T) {
	good := rrs("web.example. 10 IN A 192.0.2.1")
	refusals := map[string]behaviour{
		"FORMERR":              rcode(mdns.RcodeFormatError),
		"NOTIMP":               rcode(mdns.RcodeNotImplemented),
		"FORMERR, header only": headerOnly(mdns.RcodeFormatError),
	}
	for name, refusal := range refusals {
		t.Run(name, func(t *testing.T) {
			server := newTestServer(t)
			server.on("web.example", "A", func(req *mdns.Msg, proto string) []byte {
				if req.IsEdns0() != nil {
					return refusal(req, proto)
				}
				return good(req, proto)
			})
			reply, err := NewClient(ClientConfig{Timeout: patience}).Exchange(testContext(t), webA, server.addr)
			require.NoError(t, err)
			assert.Len(t, reply.Answer(), 1)
		})
	}
}

func headerOnly(code int) behaviour {
	return func(req *mdns.Msg, _ string) []byte {
		msg := new(mdns.Msg).SetRcode(req, code)
		msg.Question = nil
		return packed(msg)
	}
}

// manyA are n addresses of web.example as records.
func manyA(n int) []string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf("web.example. 10 IN A 192.0.2.%d", i+1))
	}
	return out
}

func withTC(b behaviour) behaviour {
	return func(req *mdns.Msg, proto string) []byte {
		raw := b(req, proto)
		raw[2] |= 0x02
		return raw
	}
}

// cutAt leaves only the first size bytes, with the counts as they were.
func cutAt(size int, b behaviour) behaviour {
	return func(req *mdns.Msg, proto string) []byte { return b(req, proto)[:size] }
}

// countsLie announces more answers than there are.
func countsLie(count uint16, b behaviour) behaviour {
	return func(req *mdns.Msg, proto string) []byte {
		raw := b(req, proto)
		binary.BigEndian.PutUint16(raw[6:], count)
		return raw
	}
}

// C26, C28: cut replies are asked for again over TCP, and never used.
func TestExchangeCutReplies(t *testing.T) {
	all := rrs(manyA(60)...)
	twenty := rrs(manyA(20)...)
	// A header and question of 29 bytes and 16 bytes a record: 512 is inside of a record,
	// 509 on a border.
	cases := []struct {
		name     string
		udp, tcp behaviour
		want     int // records; -1: an error
		outcome  string
	}{
		{"C26: TC with 20 of 60", withTC(twenty), all, 60, "udp truncated"},
		{"C26: TC with a broken rest", withTC(cutAt(512, all)), all, 60, "udp truncated"},
		{"C26: TC, TCP is no use", withTC(twenty), silence, -1, "udp truncated"},
		{"C26: TC over TCP too", withTC(twenty), withTC(twenty), -1, "tcp truncated"},
		{"C28: cut at 512, inside of a record", cutAt(512, all), all, 60, "udp malformed"},
		{"C28: cut on a record's border", cutAt(29+30*16, all), all, 60, "udp malformed"},
		{"C28: counts announce 60, 20 are there", countsLie(60, twenty), all, 60, "udp malformed"},
		{"C28: question only, 60 announced", countsLie(60, rrs()), all, 60, "udp malformed"},
		{"C28: malformed over TCP too", cutAt(512, all), countsLie(61, all), -1, "tcp malformed"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			server := newTestServer(t)
			server.on("web.example", "A", overUDP(c.udp, c.tcp))
			metrics := newCountingMetrics()
			timeout := patience
			if c.want < 0 {
				timeout = 300 * time.Millisecond
			}
			client := NewClient(ClientConfig{Timeout: timeout, Metrics: metrics})
			reply, err := client.Exchange(testContext(t), webA, server.addr)
			assert.Equal(t, 1, metrics.get(c.outcome), "%v", metrics.counts)
			if c.want < 0 {
				require.Error(t, err)
				return
			}
			require.NoError(t, err)
			assert.Len(t, reply.Answer(), c.want)
			assert.Equal(t, "tcp", reply.Proto)
		})
	}
}

// C26: truncated, and nothing listens on TCP.
func TestExchangeC26TCPRefused(t *testing.T) {
	server := rawServer(t, func(conn net.PacketConn, from net.Addr, req *mdns.Msg) {
		_, _ = conn.WriteTo(withTC(rrs(manyA(20)...))(req, "udp"), from)
	})
	_, err := NewClient(ClientConfig{Timeout: patience}).Exchange(testContext(t), webA, server)
	require.ErrorContains(t, err, "over TCP, as the reply over UDP was truncated")
}

func TestExchangeTCPReplyToAnotherQuestion(t *testing.T) {
	server := newTestServer(t)
	server.on("web.example", "A", overUDP(withTC(rrs()), func(req *mdns.Msg, proto string) []byte {
		req.Question[0].Name = "wed.example."
		return rrs("wed.example. 10 IN A 198.51.100.66")(req, proto)
	}))
	_, err := NewClient(ClientConfig{Timeout: patience}).Exchange(testContext(t), webA, server.addr)
	require.ErrorIs(t, err, errNotOurs)
}

func TestExchangeErrors(t *testing.T) {
	client := NewClient(ClientConfig{Timeout: patience})
	t.Run("nobody listens", func(t *testing.T) {
		_, err := client.Exchange(testContext(t), webA, deadServer(t))
		require.Error(t, err)
		assert.NotErrorIs(t, err, context.DeadlineExceeded)
	})
	t.Run("cancelled while waiting", func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		server := rawServer(t, func(net.PacketConn, net.Addr, *mdns.Msg) { cancel() })
		_, err := client.Exchange(ctx, webA, server)
		require.ErrorIs(t, err, context.Canceled)
	})
	t.Run("other codes are replies", func(t *testing.T) {
		server := newTestServer(t)
		for code, text := range map[int]string{mdns.RcodeServerFailure: "SERVFAIL", mdns.RcodeNameError: "NXDOMAIN",
			mdns.RcodeRefused: "REFUSED", 12: "RCODE12"} {
			server.on("web.example", "A", rcode(code))
			reply, err := client.Exchange(testContext(t), webA, server.addr)
			require.NoError(t, err)
			assert.Equal(t, text, reply.Rcode())
		}
		server.on("web.example", "A", headerOnly(mdns.RcodeRefused))
		reply, err := client.Exchange(testContext(t), webA, server.addr)
		require.NoError(t, err)
		assert.Equal(t, "REFUSED", reply.Rcode())
	})
}

// C127: 10,000 lookups to a black hole keep to the limit, and leave nothing open.
func TestExchangeC127SocketsAreBounded(t *testing.T) {
	var asked atomic.Int32
	hole := rawServer(t, func(net.PacketConn, net.Addr, *mdns.Msg) { asked.Add(1) })
	const limit = 16
	client := NewClient(ClientConfig{Timeout: 500 * time.Millisecond, Concurrency: limit})
	before := openFiles(t)
	ended, most := make(chan struct{}), make(chan int)
	go func() {
		highest := 0
		for {
			select {
			case <-ended:
				most <- highest
				return
			default:
				highest = max(highest, openFiles(t)-before)
				runtime.Gosched()
			}
		}
	}()
	var lookups sync.WaitGroup
	for range 10_000 {
		lookups.Go(func() {
			_, err := client.Exchange(context.Background(), webA, hole)
			assert.ErrorIs(t, err, context.DeadlineExceeded)
		})
	}
	lookups.Wait()
	close(ended)
	highest := <-most
	assert.LessOrEqual(t, highest, limit)
	assert.Positive(t, highest)
	assert.GreaterOrEqual(t, asked.Load(), int32(limit), "the black hole was asked at all")
	assert.LessOrEqual(t, openFiles(t), before)
}

func openFiles(t testing.TB) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("no /proc to count open files in:", err)
	}
	return len(entries)
}

// C133: what an address may be.
func TestParseServer(t *testing.T) {
	good := map[string]string{
		"192.0.2.1":            "192.0.2.1:53",
		"192.0.2.1:5353":       "192.0.2.1:5353",
		"2001:db8::1":          "[2001:db8::1]:53",
		"[2001:db8::1]":        "[2001:db8::1]:53",
		"[2001:db8::1]:5353":   "[2001:db8::1]:5353",
		"fe80::1%eth0":         "[fe80::1%eth0]:53",
		"::ffff:192.0.2.1":     "192.0.2.1:53",
		"[::ffff:192.0.2.1]:1": "192.0.2.1:1",
	}
	for text, want := range good {
		got, err := ParseServer(text)
		require.NoError(t, err, text)
		assert.Equal(t, netip.MustParseAddrPort(want), got, text)
	}
	for _, text := range []string{"", "192.0.2.1:0", "[2001:db8::1]:0", "host", "host:53", "192.0.2.1:", "192.0.2.1:65536",
		"192.0.2.256", "[192.0.2.1", ":53", "system"} {
		_, err := ParseServer(text)
		require.Error(t, err, text)
		assert.Contains(t, err.Error(), fmt.Sprintf("%q", text))
	}
}

func TestTypes(t *testing.T) {
	for text, want := range map[string]uint16{"a": 1, "AAAA": 28, "srv": 33, "TYPE65280": 65280, "type1": 1, "HTTPS": 65} {
		got, err := TypeFromText(text)
		require.NoError(t, err, text)
		assert.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "X", "TYPE", "TYPE65536", "TYPE-1"} {
		_, err := TypeFromText(text)
		require.Error(t, err, text)
	}
	assert.Equal(t, "AAAA", TypeText(mdns.TypeAAAA))
	assert.Equal(t, "TYPE65280", TypeText(65280))
}

func TestReplyAsText(t *testing.T) {
	req := new(mdns.Msg).SetQuestion("web.example.", mdns.TypeSRV)
	msg := new(mdns.Msg)
	raw := says(mdns.RcodeSuccess, `web.example. 5 IN SRV 0 1 80 a\.b.example.`, soa("example.", "7"))(req, "udp")
	require.NoError(t, msg.Unpack(raw))
	msg.SetEdns0(1232, false)
	msg.Authoritative = true
	msg.IsEdns0().Option = []mdns.EDNS0{&mdns.EDNS0_EDE{InfoCode: 3, ExtraText: "old"}}
	reply := &Reply{Msg: msg}
	assert.Equal(t, []Record{{"web.example", "SRV", 5, `0 1 80 a\.b.example.`}}, reply.Answer())
	assert.Equal(t, []Record{{"example", "SOA", 7, "ns.example. root.example. 1 60 60 60 7"}}, reply.Authority())
	assert.Equal(t, []string{"3 (Stale Answer): (old)"}, reply.ExtendedErrors())
	assert.True(t, reply.Authoritative())
}
