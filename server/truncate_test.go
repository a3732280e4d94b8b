package server_test

import (
	"fmt"
	"testing"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"

	"github.com/meshdns/meshdns/server"
	"github.com/meshdns/meshdns/sources"
)

// TestTruncation is the property of CASES C25–C41 and C191, for every size of a set and
// of a client's buffer: a reply is within the limit, ends with a whole record, says TC
// exactly when an answer record is missing, drops ADDITIONAL first, and is never empty
// where one record fits; TCP has all.
func TestTruncation(t *testing.T) {
	w := newWorld(t, settings("c1"))
	for _, n := range []int{0, 1, 2, 9, 18, 28, 29, 30, 60, 74, 75, 76, 255, 300} {
		w.put("c1", "shop", "api", manyEndpoints(n))
		for _, size := range []int{-1, 0, 1, 511, 512, 513, 1232, 4096, 65535} {
			for _, typ := range []uint16{dns.TypeA, dns.TypeAAAA, dns.TypeSRV} {
				checkTruncation(t, w, n, size, typ)
			}
		}
	}
}

func manyEndpoints(n int) *sources.ServiceFields {
	var list []sources.Endpoint
	for i := range n {
		list = append(list,
			endpoint(fmt.Sprintf("192.0.%d.%d", 2+i/250, 1+i%250), fmt.Sprintf("web-%d", i), sources.Ready),
			endpoint(fmt.Sprintf("2001:db8::%x", i+1), fmt.Sprintf("web-%d", i), sources.Ready))
	}
	s := headless(list...)
	s.Type = sources.ClusterIP // so that the name exists without endpoints
	return s
}

// checkTruncation asks with a buffer size; -1 is no EDNS.
func checkTruncation(t *testing.T, w *world, n, size int, typ uint16) {
	name := "api.shop.svc.cluster.global."
	if typ == dns.TypeSRV {
		name = "_http._tcp." + name
	}
	q := new(dns.Msg).SetQuestion(name, typ)
	limit := 512
	if size >= 0 {
		q.SetEdns0(uint16(size), false)
		limit = min(max(size, 512), 1232)
	}
	packed, err := q.Pack()
	require.NoError(t, err)
	what := fmt.Sprintf("n=%d size=%d type=%s", n, size, dns.TypeToString[typ])

	out, _ := w.handler.Answer(make([]byte, 0, 65535), packed, &server.Transport{Protocol: server.UDP})
	require.LessOrEqual(t, len(out), limit, what)
	reply := new(dns.Msg)
	require.NoError(t, reply.Unpack(out), what)
	require.Equal(t, len(reply.Answer) < n, reply.Truncated, what)
	require.Equal(t, size >= 0, reply.IsEdns0() != nil, what)
	if n > 0 {
		require.NotEmpty(t, reply.Answer, what)
	}
	if reply.Truncated {
		require.LessOrEqual(t, len(reply.Extra), 1, "only OPT beside a cut answer: "+what)
		room := limit - len(out)
		require.Less(t, room, recordSize(reply.Answer), "one more would fit: "+what)
	}

	out, _ = w.handler.Answer(make([]byte, 0, 65535), packed, &server.Transport{Protocol: server.TCP})
	require.NoError(t, reply.Unpack(out), what)
	require.Len(t, reply.Answer, n, what)
	require.False(t, reply.Truncated, what)
	for _, rr := range reply.Answer {
		require.Equal(t, typ, rr.Header().Rrtype, what)
	}
}

// recordSize is the size of the largest of the records, their owner compressed.
func recordSize(records []dns.RR) int {
	size := 0
	for _, rr := range records {
		size = max(size, dns.Len(rr)-len(rr.Header().Name)-1+2)
	}
	return size
}

// TestTruncationOverTCP: an answer over 65,535 bytes is cut with TC and said once (C32).
func TestTruncationOverTCP(t *testing.T) {
	w := newWorld(t, settings("c1"))
	w.put("c1", "shop", "api", manyEndpoints(5000))
	for range 3 {
		reply := w.ask("_http._tcp.api.shop.svc.cluster.global", dns.TypeSRV)
		require.True(t, reply.Truncated)
		require.Greater(t, len(reply.Answer), 700)
		require.Less(t, len(reply.Answer), 5000)
	}
	require.Equal(t, uint64(3), w.answers.Counters().Oversized())
}

// TestNeverCompressedTargets: SRV targets are written in full (RFC 2782, C70).
func TestNeverCompressedTargets(t *testing.T) {
	w := newWorld(t, settings("c1"))
	w.put("c1", "shop", "api", manyEndpoints(3))
	packed, err := new(dns.Msg).SetQuestion("_http._tcp.api.shop.svc.cluster.global.", dns.TypeSRV).Pack()
	require.NoError(t, err)
	out, _ := w.handler.Answer(make([]byte, 0, 65535), packed, &server.Transport{Protocol: server.TCP})
	reply := new(dns.Msg)
	require.NoError(t, reply.Unpack(out))
	at := len(packed)
	for _, rr := range reply.Answer {
		require.Equal(t, []byte{0xc0, 0x0c}, out[at:at+2], "owner is a pointer to the question (C47)")
		length := int(out[at+10])<<8 | int(out[at+11])
		require.Equal(t, 6+len(rr.(*dns.SRV).Target)+1, length)
		at += 12 + length
	}
}
