package server_test

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/meshdns/meshdns/server"
	"github.com/meshdns/meshdns/sources"
)

func limitOf(perSecond, slip int, exempt ...netip.Prefix) server.RateLimit {
	return server.RateLimit{PerSecond: perSecond, Slip: slip, IPv4Prefix: 24, IPv6Prefix: 56, Window: time.Second, Exempt: exempt}
}

// limitedWorld has a name with many addresses, and a limit on a clock that stands still.
func limitedWorld(t testing.TB, limit server.RateLimit) (*server.Answers, *time.Time) {
	w := newWorld(t, settings("c1"))
	w.put("c1", "shop", "api", headless(endpoint("192.0.2.1", "", sources.Ready), endpoint("192.0.2.2", "", sources.Ready)))
	w.put("c1", "shop", "large", manyEndpoints(200))
	now := time.Unix(1_000_000, 0)
	answers := server.NewAnswers(server.AnswersConfig{Views: w.publisher, Now: func() time.Time { return now }})
	require.NoError(t, answers.SetRateLimit(limit))
	return answers, &now
}

// from is how a message of a client comes over UDP.
func from(client string) *server.Transport {
	return &server.Transport{Protocol: server.UDP, Client: netip.AddrPortFrom(netip.MustParseAddr(client), 5353)}
}

// asked are questions of each kind, without and with EDNS.
func asked(t testing.TB) map[string][]byte {
	all := map[string][]byte{}
	add := func(kind string, m *dns.Msg) {
		for _, edns := range []bool{false, true} {
			if edns {
				m.SetEdns0(1232, false)
			}
			wire, err := m.Pack()
			require.NoError(t, err)
			all[fmt.Sprintf("%s, EDNS %v", kind, edns)] = wire
		}
	}
	question := func(name string, typ uint16) *dns.Msg { return new(dns.Msg).SetQuestion(name, typ) }
	add("addresses", question("Api.shop.svc.cluster.global.", dns.TypeA))
	add("services", question("api.shop.svc.cluster.global.", dns.TypeSRV))
	add("many addresses", question("large.shop.svc.cluster.global.", dns.TypeA))
	add("NODATA", question("api.shop.svc.cluster.global.", dns.TypeTXT))
	add("NXDOMAIN", question("absent.shop.svc.cluster.global.", dns.TypeA))
	add("REFUSED", question("www.example.com.", dns.TypeA))
	add("NOTIMP", &dns.Msg{MsgHdr: dns.MsgHdr{Opcode: dns.OpcodeStatus}, Question: question("x.mesh.", dns.TypeA).Question})
	add("no question", &dns.Msg{})
	badVersion := question("api.shop.svc.cluster.global.", dns.TypeA)
	badVersion.SetEdns0(1232, false).IsEdns0().SetVersion(1)
	add("BADVERS", badVersion)
	return all
}

// A reply that is cut has TC, the whole one's rcode, AA and question, its OPT, no records, and
// not more bytes than the query.
func TestCutReplies(t *testing.T) {
	answers, now := limitedWorld(t, limitOf(1, 1))
	handler := &server.Single{Handler: answers.NewHandler()}
	for name, query := range asked(t) {
		*now = now.Add(2 * time.Second)
		out, verdict := handler.Answer(make([]byte, 0, 4096), query, from("198.51.100.1"))
		require.Equal(t, server.Reply, verdict, name)
		whole, cut := new(dns.Msg), new(dns.Msg)
		require.NoError(t, whole.Unpack(out), name)
		short, verdict := handler.Answer(make([]byte, 0, 4096), query, from("198.51.100.77"))
		require.Equal(t, server.Reply, verdict, name)
		require.LessOrEqual(t, len(short), len(query), name)
		require.NoError(t, cut.Unpack(short), name)
		assert.Empty(t, cut.Answer, name)
		assert.Empty(t, cut.Ns, name)
		assert.True(t, cut.Truncated, name)
		whole.Truncated = true
		assert.Equal(t, whole.MsgHdr, cut.MsgHdr, name)
		assert.Equal(t, whole.Question, cut.Question, name)
		if whole.IsEdns0() == nil {
			assert.Empty(t, cut.Extra, name)
			continue
		}
		assert.Len(t, cut.Extra, 1, name)
		assert.Equal(t, whole.IsEdns0().Hdr, withLength(cut.IsEdns0(), whole.IsEdns0()), name)
	}
}

// withLength is the header of one OPT with the RDLENGTH of another.
func withLength(opt, other *dns.OPT) dns.RR_Header {
	header := opt.Hdr
	header.Rdlength = other.Hdr.Rdlength
	return header
}

// DNS_RULES 36: bytes out to a spoofed prefix ≤ bytes in × slip share + the configured rate.
func TestBytesToASpoofedPrefix(t *testing.T) {
	const perSecond, seconds, each = 20, 5, 200
	for _, slip := range []int{0, 1, 2, 3, server.MostSlip} {
		for _, handlers := range []int{1, 3} {
			answers, now := limitedWorld(t, limitOf(perSecond, slip))
			var workers []*server.Single
			for range handlers {
				workers = append(workers, &server.Single{Handler: answers.NewHandler()})
			}
			queries := asked(t)
			in, out, whole, largest, i := 0, 0, 0, 0, 0
			for range seconds * each {
				*now = now.Add(time.Second / each)
				for _, query := range queries { // in random order
					i++
					reply, verdict := workers[i%handlers].Answer(make([]byte, 0, 4096), query, from(fmt.Sprintf("198.51.100.%d", i%256)))
					in += len(query)
					if verdict == server.Drop {
						continue
					}
					out += len(reply)
					if reply[2]&2 == 0 || len(reply) > len(query) {
						whole++
						largest = max(largest, len(reply))
					}
				}
			}
			share := 0.0
			if slip > 0 {
				share = 1 / float64(slip)
			}
			// Queries differ in length, so the share of bytes is that of replies but for chance.
			bound := float64(in)*share*1.05 + perSecond*(seconds+1)*float64(largest)
			assert.LessOrEqual(t, whole, perSecond*(seconds+1), "slip %d", slip)
			assert.LessOrEqual(t, float64(out), bound, "slip %d", slip)
			assert.Greater(t, whole, perSecond*seconds/2, "slip %d: the rate is given", slip)
		}
	}
}

// Never for TCP and listed forwarders, nor after the limit has been taken away; others keep
// theirs. Metrics say what was held back.
func TestWhatIsNotLimited(t *testing.T) {
	answers, _ := limitedWorld(t, limitOf(2, 2, netip.MustParsePrefix("10.1.0.0/16")))
	handler := &server.Single{Handler: answers.NewHandler()}
	query := asked(t)["addresses, EDNS true"]
	wholeOf := func(transport *server.Transport) (n int) {
		for range 10 {
			if reply, verdict := handler.Answer(make([]byte, 0, 65535), query, transport); verdict == server.Reply && reply[2]&2 == 0 {
				n++
			}
		}
		return n
	}
	limited := func() map[string]uint64 {
		counts := map[string]uint64{}
		answers.Counters().RateLimited(func(action string, n uint64) { counts[action] = n })
		return counts
	}
	tcp := from("198.51.100.1")
	tcp.Protocol = server.TCP
	assert.Equal(t, 10, wholeOf(tcp))
	assert.Equal(t, 10, wholeOf(from("10.1.2.3")))
	assert.Equal(t, map[string]uint64{"truncated": 0, "dropped": 0}, limited())
	assert.Equal(t, 2, wholeOf(from("198.51.100.1")))
	assert.Equal(t, map[string]uint64{"truncated": 4, "dropped": 4}, limited())
	assert.Equal(t, 2, wholeOf(from("2001:db8::1")))
	require.NoError(t, answers.SetRateLimit(server.RateLimit{}))
	assert.Equal(t, 10, wholeOf(from("198.51.100.1")))
}

// Questions that waited for a lookup are limited as well.
func TestWaitingQuestionsAreLimited(t *testing.T) {
	answers, _ := limitedWorld(t, limitOf(2, 0))
	handler := answers.NewHandler()
	whole := 0
	for range 10 {
		if _, verdict := handler.HandleWaiting(t.Context(), make([]byte, 0, 4096), asked(t)["services, EDNS false"], from("198.51.100.1")); verdict == server.Reply {
			whole++
		}
	}
	assert.Equal(t, 2, whole)
}

// The limit costs no allocation.
func TestRateLimitAllocatesNothing(t *testing.T) {
	answers, _ := limitedWorld(t, limitOf(2, 2))
	handler := &server.Single{Handler: answers.NewHandler()}
	out, client := make([]byte, 0, 4096), from("198.51.100.1")
	for name, query := range asked(t) {
		assert.Zero(t, testing.AllocsPerRun(100, func() { handler.Answer(out, query, client) }), name)
	}
}

// BenchmarkHandleLimited is the whole handling of a packet without a limit, below it and above it.
func BenchmarkHandleLimited(b *testing.B) {
	for _, c := range []struct {
		name  string
		limit server.RateLimit
	}{
		{"off", server.RateLimit{}}, {"below", limitOf(server.MostPerSecond, 2)}, {"above", limitOf(1, 2)},
	} {
		b.Run(c.name, func(b *testing.B) {
			w := newWorld(b, settings("c1"))
			w.put("c1", "shop", "api", headless(endpoint("192.0.2.1", "", sources.Ready), endpoint("192.0.2.2", "", sources.Ready)))
			require.NoError(b, w.answers.SetRateLimit(c.limit))
			query, err := new(dns.Msg).SetQuestion("api.shop.svc.cluster.global.", dns.TypeA).Pack()
			require.NoError(b, err)
			batch := make([][]byte, 32)
			var clients [32]*server.Transport
			for i := range batch {
				batch[i], clients[i] = query, from(fmt.Sprintf("198.51.%d.1", i))
			}
			handler, out := w.answers.NewHandler(), make([]byte, 0, 4096)
			b.ReportAllocs()
			for i := 0; i < b.N; i += len(batch) {
				handler.Begin(batch)
				for k := range batch {
					handler.Handle(k, out, clients[k])
				}
				handler.End()
			}
		})
	}
}
