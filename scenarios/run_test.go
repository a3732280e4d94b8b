package scenarios

import (
	"net/netip"
	"testing"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestRun(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	f := &fakeServer{
		answer: answerFrom(t, "web.mesh. 5 IN A 192.0.2.1", "mesh. 5 IN SOA ns.dns.mesh. a. 7 1 1 1 5",
			"srv.mesh. 5 IN SRV 0 0 80 web.mesh.", "srv.mesh. 5 IN A 192.0.2.1"),
		pages: map[string]string{"/api/v1/explain?client=192.0.2.9&name=web.mesh&type=A": `{"rcode":"NOERROR","endpoints":[{"address":"192.0.2.1"}]}`},
		log:   "level=WARN msg=one\nlevel=WARN msg=two\n",
	}
	require.NoError(t, runText(t, f, lines(
		"query web.mesh,WEB.Mesh A",
		"  is POS",
		"query web.mesh AAAA,TXT",
		"  is NODATA mesh.",
		"query absent.mesh A",
		"  is NXDOMAIN mesh.",
		"query srv.mesh SRV",
		"  targets resolve",
		"query srv.mesh A tcp +twice",
		"  same web.mesh",
		"serial mesh.",
		"serial mesh.",
		"explain web.mesh A client=192.0.2.9",
		"  item address=192.0.2.1",
		`log "level=WARN" 2`,
		"send 3 web.mesh A",
		"receive",
		"  addresses 192.0.2.1",
		"raw",
		"  bytes 1234 0100 0001 0000 0000 0000 name(web.mesh) u16(1) u16(0x1)",
		"  is POS",
		"mutate web.mesh A count=50",
		"stop",
	)))
}

// TestRunFails: what is wrong is found, at its line.
func TestRunFails(t *testing.T) {
	for text, want := range map[string]string{
		lines("query web.mesh A", "  addresses 192.0.2.9"):                                  "test.txtar:1: web.mesh. IN A udp",
		lines("no-pairs", "query absent.mesh A", "  is POS"):                                "line 3: rcode: want NOERROR, got NXDOMAIN",
		lines("query srv.mesh SRV", "  targets resolve"):                                    "absent.mesh. has no address",
		lines("query web.mesh A", "  same other.mesh"):                                      "data, beside those of other.mesh",
		lines("nosuch step"):                                                                `unknown step "nosuch"`,
		lines("query web.mesh A", "  nosuch"):                                               `unknown expectation "nosuch"`,
		lines("serial mesh.", "serial mesh. grows"):                                         "serial of mesh.: 7 before, 7 now",
		lines("log nothing"):                                                                "log lines that match nothing",
		lines("raw udp", "  bytes 1234 0000 0001 0000 0000 0000 0000 0200 01", "  dropped"): "want no reply",
		lines("raw tcp", "  bytes 1234 0000 0001 0000 0000 0000 0000 0200 01", "  dropped"): "want the connection closed",
		lines("order web.mesh A count=100", "  first uniform"):                              "chi-square",
		lines("query two.mesh A", "send 1 web.mesh A", "receive", "  is NODATA mesh."):      "test.txtar:3",
		lines("wait 30ms query web.mesh AAAA", "  is POS"):                                  "still so after 30ms",
		lines("query web.mesh A @127.0.0.1:${nosuch}"):                                      "unknown variable",
		lines("query odd.mesh A"):                                                           "C167: odd.mesh.: A says NOERROR, AAAA says NXDOMAIN",
		lines("get /metrics", "  metric meshdns_panics_total 1"):                            "want 1, got 0",
		lines("asked nobody"):                                                               "want the name of an upstream",
	} {
		f := &fakeServer{log: "the server's log\n"}
		records := answerFrom(t, "web.mesh. 5 IN A 192.0.2.1", "web.mesh. 5 IN A 192.0.2.2", "mesh. 5 IN SOA ns.dns.mesh. a. 7 1 1 1 5",
			"other.mesh. 5 IN A 192.0.2.2", "two.mesh. 5 IN A 192.0.2.2", "srv.mesh. 5 IN SRV 0 0 80 absent.mesh.", "odd.mesh. 5 IN A 192.0.2.3")
		f.answer = func(query *dns.Msg) *dns.Msg {
			m := records(query)
			if q := query.Question[0]; q.Name == "odd.mesh." && q.Qtype == dns.TypeAAAA {
				m.Rcode = dns.RcodeNameError
			}
			return m
		}
		err := runText(t, f, text)
		assert.ErrorContains(t, err, want, text)
	}
}

// TestFailureShowsAll: the step, the reply as dig prints it, the log.
func TestFailureShowsAll(t *testing.T) {
	f := &fakeServer{answer: answerFrom(t, "web.mesh. 5 IN A 192.0.2.1"), log: "the last words\n"}
	err := runText(t, f, lines("query web.mesh A", "  ttl 6"))
	for _, part := range []string{"scripts/test.txtar:1: query web.mesh A", ";; ANSWER SECTION:", ";; MSG SIZE  rcvd:", "the last words"} {
		assert.ErrorContains(t, err, part)
	}
}

// TestMutateFindsBadReply: a reply to a damaged packet must be well-formed too.
func TestMutateFindsBadReply(t *testing.T) {
	f := &fakeServer{answer: func(query *dns.Msg) *dns.Msg {
		m := new(dns.Msg).SetReply(query)
		m.Rcode = dns.RcodeRefused
		m.RecursionAvailable = true
		return m
	}}
	assert.ErrorContains(t, runText(t, f, lines("mutate web.mesh A count=50")), "RA, Z, AD, CD")
}

func TestWrongSource(t *testing.T) {
	u, err := startUpstream(t.Context(), "", NewPorts())
	require.NoError(t, err)
	defer u.stop()
	b, err := parseBehaviour([]Line{{Words: []string{"on", "*", "*", "wrong-source", "silence"}}})
	require.NoError(t, err)
	u.behave(b)
	q := testQuestion("web.mesh.", dns.TypeA)
	packet, err := q.packet()
	require.NoError(t, err)
	_, err = exchange(t.Context(), "udp", netip.MustParseAddrPort(u.address()), packet)
	assert.ErrorContains(t, err, "but the reply came from")
}

func TestGenerator(t *testing.T) {
	g, err := newGenerator("shop/big", settings{"count": "3", "per-slice": "2", "from": "192.0.2.255", "hostname": "h"})
	require.NoError(t, err)
	assert.Equal(t, `apiVersion: v1
kind: Service
metadata: {name: big, namespace: shop}
spec: {type: ClusterIP, clusterIP: None, ports: [{name: http, port: 8080, protocol: TCP}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: big-0, namespace: shop, labels: {kubernetes.io/service-name: big}}
addressType: IPv4
ports: [{name: http, port: 8080, protocol: TCP}]
endpoints:
- {addresses: ["192.0.2.255"], conditions: {ready: true}, hostname: h0}
- {addresses: ["192.0.3.0"], conditions: {ready: true}, hostname: h1}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: big-1, namespace: shop, labels: {kubernetes.io/service-name: big}}
addressType: IPv4
ports: [{name: http, port: 8080, protocol: TCP}]
endpoints:
- {addresses: ["192.0.3.1"], conditions: {ready: true}, hostname: h2}
`, g.manifests())
}
