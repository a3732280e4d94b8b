package dns

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	mdns "github.com/miekg/dns"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/meshdns/meshdns/names"
	"github.com/meshdns/meshdns/sources"
)

// replyTo is the message that b gives to q, as a client reads it.
func replyTo(t testing.TB, q Question, b behaviour) *mdns.Msg {
	t.Helper()
	req := newQuery(q, true)
	msg, err := parseReply(b(req, "udp"), req.Id, q)
	require.NoError(t, err)
	return msg
}

func chain(texts ...string) []sources.Alias {
	var out []sources.Alias
	for i := 1; i < len(texts); i++ {
		out = append(out, sources.Alias{Owner: names.MustParse(texts[i-1]), Target: names.MustParse(texts[i])})
	}
	return out
}

// links are CNAME records from one name to the next.
func links(ttl int, texts ...string) []string {
	var out []string
	for i := 1; i < len(texts); i++ {
		out = append(out, fmt.Sprintf("%s. %d IN CNAME %s.", texts[i-1], ttl, texts[i]))
	}
	return out
}

// numbered are n names: prefix0.example, prefix1.example …
func numbered(prefix string, n int) []string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf("%s%d.example", prefix, i))
	}
	return out
}

func TestConvert(t *testing.T) {
	webSRV := Question{names.MustParse("_http._tcp.web.example"), mdns.TypeSRV}
	webAAAA := Question{webA.Name, mdns.TypeAAAA}
	deep := slices.Insert(numbered("c", MaxAliases+1), 0, "web.example")
	cases := []struct {
		name  string
		q     Question
		reply behaviour
		want  answer
	}{
		{"addresses: sorted, each once, smallest TTL", webA,
			rrs("web.example. 20 IN A 192.0.2.2", "WEB.example. 10 IN A 192.0.2.1", "web.example. 30 IN A 192.0.2.2"),
			answer{addrs: addrs("192.0.2.1", "192.0.2.2"), end: webA.Name, ttl: 10 * time.Second}},
		{"other owners, types and classes are left out", webA,
			rrs("web.example. 20 IN A 192.0.2.2", "evil.example. 1 IN A 192.0.2.66", "web.example. 1 IN AAAA 2001:db8::66",
				"web.example. 1 CH A 192.0.2.67"),
			answer{addrs: addrs("192.0.2.2"), end: webA.Name, ttl: 20 * time.Second}},
		{"C44: signatures are left out", webA,
			rrs("web.example. 20 IN A 192.0.2.2", "web.example. 1 IN RRSIG A 8 2 20 20300101000000 20200101000000 1 example. AAAA",
				"-web.example. 1 IN NSEC x.example. A"),
			answer{addrs: addrs("192.0.2.2"), end: webA.Name, ttl: 20 * time.Second}},
		{"TTL 0", webA, rrs("web.example. 0 IN A 192.0.2.2"), answer{addrs: addrs("192.0.2.2"), end: webA.Name}},
		{"IPv4 mapped into IPv6 is left out alone", webAAAA,
			rrs("web.example. 20 IN AAAA ::ffff:192.0.2.1", "web.example. 20 IN AAAA 2001:db8::1"),
			answer{addrs: addrs("2001:db8::1"), end: webA.Name, ttl: 20 * time.Second}},
		{"C152: a whole chain, in any order", webA,
			rrs("c.test. 40 IN A 192.0.2.9", "b.example. 15 IN CNAME c.test.", "web.example. 300 IN CNAME B.example."),
			answer{addrs: addrs("192.0.2.9"), chain: chain("web.example", "b.example", "c.test"), end: names.MustParse("c.test"), ttl: 15 * time.Second}},
		{"C148: an alias without address and SOA", webA, rrs("web.example. 300 IN CNAME b.test."),
			answer{kind: stopsShort, chain: chain("web.example", "b.test"), end: names.MustParse("b.test"), ttl: 300 * time.Second}},
		{"C148: an SOA of another zone says nothing about the target", webA, rrs("web.example. 300 IN CNAME b.test.", soa("example.", "60")),
			answer{kind: stopsShort, chain: chain("web.example", "b.test"), end: names.MustParse("b.test"), ttl: 300 * time.Second}},
		{"alias whose target has no such record", webA, rrs("web.example. 300 IN CNAME b.test.", soa("test.", "60")),
			answer{kind: noData, chain: chain("web.example", "b.test"), end: names.MustParse("b.test"), ttl: 60 * time.Second}},
		{"alias whose target does not exist (RFC 6604)", webA, says(mdns.RcodeNameError, "web.example. 30 IN CNAME b.test.", soa("test.", "60")),
			answer{kind: noName, chain: chain("web.example", "b.test"), end: names.MustParse("b.test"), ttl: 30 * time.Second}},
		{"NODATA: the smaller one of the SOA's TTL and MINIMUM", webA,
			rrs("-example. 50 IN SOA ns.example. root.example. 1 60 60 60 40"), answer{kind: noData, end: webA.Name, ttl: 40 * time.Second}},
		{"NXDOMAIN: likewise", webA, says(mdns.RcodeNameError, "-example. 30 IN SOA ns.example. root.example. 1 60 60 60 40"),
			answer{kind: noName, end: webA.Name, ttl: 30 * time.Second}},
		{"NXDOMAIN of the root", webA, says(mdns.RcodeNameError, "-. 30 IN SOA ns.example. root.example. 1 60 60 60 40"),
			answer{kind: noName, end: webA.Name, ttl: 30 * time.Second}},
		{"NXDOMAIN without SOA holds as long as a failure", webA, says(mdns.RcodeNameError), answer{kind: noName, end: webA.Name, ttl: 2 * time.Second}},
		{"SRV: without priority and weight", webSRV,
			rrs("_http._tcp.web.example. 9 IN SRV 1 2 8080 B.example.", "_http._tcp.web.example. 9 IN SRV 2 2 80 a.example.",
				"_http._tcp.web.example. 9 IN SRV 3 4 8080 b.example."),
			answer{srvs: []srvRecord{{names.MustParse("a.example"), 80}, {names.MustParse("b.example"), 8080}}, end: webSRV.Name, ttl: 9 * time.Second}},
		{"the longest chain", webA, rrs(links(9, deep[:MaxAliases+1]...)...),
			answer{kind: stopsShort, chain: chain(deep[:MaxAliases+1]...), end: names.MustParse(deep[MaxAliases]), ttl: 9 * time.Second}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, err := convert(replyTo(t, c.q, c.reply), c.q)
			require.NoError(t, err)
			assert.Equal(t, &c.want, got)
		})
	}
}

func TestConvertRefuses(t *testing.T) {
	cases := []struct {
		name  string
		reply behaviour
		want  error
		text  string
	}{
		{"SERVFAIL", rcode(mdns.RcodeServerFailure), nil, "SERVFAIL"},
		{"REFUSED", rcode(mdns.RcodeRefused), nil, "REFUSED"},
		{"another code", rcode(12), nil, "RCODE12"},
		{"SERVFAIL with records", says(mdns.RcodeServerFailure, "web.example. 9 IN A 192.0.2.1"), nil, "SERVFAIL"},
		{"nothing at all", rrs(), errUnproven, ""},
		{"records of another name alone", rrs("evil.example. 9 IN A 192.0.2.66"), errUnproven, ""},
		{"an SOA of another zone", rrs(soa("test.", "60")), errUnproven, ""},
		{"lame: a referral", rrs("-example. 60 IN NS ns.example."), errLame, ""},
		{"C20: an alias of itself", rrs(links(9, "web.example", "web.example")...), errLoop, "web.example"},
		{"C20: a loop", rrs(links(9, "web.example", "b.example", "c.example", "b.example")...), errLoop, "b.example"},
		{"C20: 20 deep", rrs(links(9, slices.Insert(numbered("c", 20), 0, "web.example")...)...), errDeep, "c16.example"},
		{"two aliases of one name", rrs("web.example. 9 IN CNAME b.example.", "web.example. 9 IN CNAME c.example."), ErrMalformed, "two CNAME"},
		{"NXDOMAIN with an address", says(mdns.RcodeNameError, "web.example. 9 IN A 192.0.2.1"), ErrMalformed, "NXDOMAIN with records"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := convert(replyTo(t, webA, c.reply), webA)
			require.ErrorContains(t, err, c.text)
			if c.want != nil {
				assert.ErrorIs(t, err, c.want)
			}
		})
	}
}

// fuzzQuestions are what the fuzz target's replies are to.
var fuzzQuestions = []Question{
	webA,
	{names.MustParse("web.example"), mdns.TypeAAAA},
	{names.MustParse("_http._tcp.web.example"), mdns.TypeSRV},
}

// fuzzSeeds are replies of every kind to the questions, in fuzzQuestions' order; the
// committed corpus in testdata/fuzz holds what was found with them.
func fuzzSeeds() [][]byte {
	behaviours := []behaviour{
		rrs(manyA(3)...), rrs(links(9, "web.example", "b.example", "c.test")...), rrs(soa("example.", "60")),
		noSuchName("example.", "5"), withTC(rrs(manyA(3)...)), countsLie(60, rrs(manyA(3)...)), cutAt(60, rrs(manyA(3)...)),
		rrs("web.example. 9 IN AAAA 2001:db8::1", "web.example. 9 IN AAAA ::ffff:192.0.2.1"),
		rrs("_http._tcp.web.example. 9 IN SRV 1 2 80 a.example.", "_http._tcp.web.example. 9 IN SRV 1 2 0 ."),
		rrs("-example. 60 IN NS ns.example."), rcode(mdns.RcodeServerFailure), headerOnly(mdns.RcodeRefused),
		rrs("web.example. 9 IN CNAME web.example."), rrs(links(9, numbered("c", 20)...)...),
	}
	var out [][]byte
	for _, q := range fuzzQuestions {
		for _, b := range behaviours {
			req := newQuery(q, true)
			req.Id = 0x1234
			out = append(out, b(req, "udp"))
		}
	}
	return out
}

// FuzzReply reads any bytes as a reply, and checks that what is taken from it is what the
// rest of the package builds on (FAULTS 23).
func FuzzReply(f *testing.F) {
	for i, seed := range fuzzSeeds() {
		f.Add(uint8(i*len(fuzzQuestions)/len(fuzzSeeds())), seed)
	}
	f.Fuzz(func(t *testing.T, which uint8, raw []byte) {
		q := fuzzQuestions[int(which)%len(fuzzQuestions)]
		var id uint16
		if len(raw) >= 2 {
			id = binary.BigEndian.Uint16(raw)
		}
		msg, err := parseReply(raw, id, q)
		if err != nil {
			require.Nil(t, msg)
			return
		}
		require.LessOrEqual(t, len(msg.Answer), len(raw))
		records(msg.Answer)
		if a, err := convert(msg, q); err == nil {
			checkAnswer(t, q, a)
		}
	})
}

func checkAnswer(t *testing.T, q Question, a *answer) {
	for _, addr := range a.addrs {
		require.True(t, addr.IsValid() && !addr.Is4In6() && addr.Zone() == "")
		require.Equal(t, q.Type == mdns.TypeA, addr.Is4())
	}
	require.True(t, slices.IsSortedFunc(a.addrs, netip.Addr.Compare))
	require.Len(t, slices.Compact(slices.Clone(a.addrs)), len(a.addrs))
	require.Equal(t, a.kind == hasRecords, len(a.addrs)+len(a.srvs) > 0)
	require.True(t, a.ttl >= 0 && a.ttl < maxDuration, "a TTL was given: %v", a.ttl)
	require.LessOrEqual(t, len(a.chain), MaxAliases)
	at := q.Name
	for _, alias := range a.chain {
		require.Equal(t, at, alias.Owner)
		at = alias.Target
	}
	require.Equal(t, at, a.end)
}
