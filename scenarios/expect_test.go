package scenarios

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func testQuestion(name string, qtype uint16) *question {
	return &question{
		name: name, qtype: qtype, class: dns.ClassINET, transport: "udp",
		server: netip.MustParseAddrPort("127.0.0.1:53"), rd: true, edns: true, size: ednsSize,
	}
}

// replyTo makes the reply that a right server would give, lets change spoil it, and
// sends it over no wire.
func replyTo(t *testing.T, q *question, records []string, change func(*dns.Msg)) *reply {
	t.Helper()
	packet, err := q.packet()
	require.NoError(t, err)
	query := new(dns.Msg)
	require.NoError(t, query.Unpack(packet))
	m := new(dns.Msg).SetReply(query)
	m.Authoritative, m.Compress = true, true
	if q.edns {
		m.SetEdns0(ednsSize, false)
	}
	for _, text := range records {
		rr, err := dns.NewRR(text)
		require.NoError(t, err)
		if rr.Header().Rrtype == dns.TypeSOA && q.qtype != dns.TypeSOA {
			m.Ns = append(m.Ns, rr)
		} else {
			m.Answer = append(m.Answer, rr)
		}
	}
	if change != nil {
		change(m)
	}
	wire, err := m.Pack()
	require.NoError(t, err)
	r, err := newReply(packet, wire, q.server, q.transport, 0)
	require.NoError(t, err)
	return r
}

const testSOA = "mesh. 5 IN SOA ns.dns.mesh. ns.dns.mesh. 1 7200 900 1209600 5"

func TestCheckAlways(t *testing.T) {
	a := []string{"web.mesh. 5 IN A 192.0.2.1"}
	for name, test := range map[string]struct {
		records []string
		change  func(*dns.Msg)
		want    string // "" for a right reply
	}{
		"right":             {a, nil, ""},
		"right negative":    {[]string{testSOA}, nil, ""},
		"ID":                {a, func(m *dns.Msg) { m.Id++ }, "the ID"},
		"QR":                {a, func(m *dns.Msg) { m.Response = false }, "QR"},
		"opcode":            {a, func(m *dns.Msg) { m.Opcode = 2 }, "opcode"},
		"RD":                {a, func(m *dns.Msg) { m.RecursionDesired = false }, "RD"},
		"RA":                {a, func(m *dns.Msg) { m.RecursionAvailable = true }, "RA"},
		"AD":                {a, func(m *dns.Msg) { m.AuthenticatedData = true }, "AD"},
		"CD":                {a, func(m *dns.Msg) { m.CheckingDisabled = true }, "CD"},
		"Z":                 {a, func(m *dns.Msg) { m.Zero = true }, "Z"},
		"AA missing":        {a, func(m *dns.Msg) { m.Authoritative = false }, "AA"},
		"AA with SERVFAIL":  {nil, func(m *dns.Msg) { m.Rcode = dns.RcodeServerFailure }, "AA"},
		"question's case":   {a, func(m *dns.Msg) { m.Question[0].Name = "Web.mesh." }, "question"},
		"no question":       {a, func(m *dns.Msg) { m.Question = nil }, "question"},
		"no OPT":            {a, func(m *dns.Msg) { m.Extra = nil }, "OPT"},
		"two OPTs":          {a, func(m *dns.Msg) { m.Extra = append(m.Extra, m.Extra[0]) }, "2 OPT"},
		"SOA with SERVFAIL": {[]string{testSOA}, func(m *dns.Msg) { m.Rcode, m.Authoritative = dns.RcodeServerFailure, false }, "records beside"},
		"no SOA":            {nil, nil, "rule 4"},
		"two SOAs":          {[]string{testSOA, testSOA}, nil, "stands twice"},
		"SOA TTL":           {[]string{strings.Replace(testSOA, " 5 IN", " 30 IN", 1)}, nil, "C158"},
		"foreign SOA":       {[]string{strings.Replace(testSOA, "mesh.", "other.", 1)}, nil, "not above"},
		"twice":             {append(a, a...), nil, "stands twice"},
		"two TTLs":          {append(a, "web.mesh. 6 IN A 192.0.2.2"), nil, "two TTLs"},
		"another type":      {append(a, `web.mesh. 5 IN TXT "x"`), nil, "C23"},
		"another owner":     {[]string{"other.mesh. 5 IN A 192.0.2.1"}, nil, "neither the question"},
		"owner's spelling":  {[]string{"wEb.mesh. 5 IN A 192.0.2.1"}, func(m *dns.Msg) { m.Compress = false }, "spelled"},
		"owner in full":     {a, func(m *dns.Msg) { m.Compress = false }, "not compressed"},
		"chain right":       {[]string{"web.mesh. 5 IN CNAME x.example.", "x.example. 5 IN A 192.0.2.1"}, nil, ""},
		"chain backwards":   {[]string{"x.example. 5 IN A 192.0.2.1", "web.mesh. 5 IN CNAME x.example."}, nil, "neither"},
	} {
		q := testQuestion("web.mesh.", dns.TypeA)
		err := checkAlways(q, replyTo(t, q, test.records, test.change))
		if test.want == "" {
			assert.NoError(t, err, name)
		} else {
			assert.ErrorContains(t, err, test.want, name)
		}
	}
}

func TestCheckAlwaysSize(t *testing.T) {
	var many []string
	for i := range 60 {
		many = append(many, "web.mesh. 5 IN A "+netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}).String())
	}
	q := testQuestion("web.mesh.", dns.TypeA)
	assert.NoError(t, checkAlways(q, replyTo(t, q, many, nil)))
	q.size = 1
	assert.ErrorContains(t, checkAlways(q, replyTo(t, q, many, nil)), "rule 24")
	q.edns = false
	assert.ErrorContains(t, checkAlways(q, replyTo(t, q, many, nil)), "rule 24")
	q.transport = "tcp"
	assert.NoError(t, checkAlways(q, replyTo(t, q, many, nil)))
}

func TestCheckAlwaysTargets(t *testing.T) {
	q := testQuestion("_http._tcp.web.mesh.", dns.TypeSRV)
	r := replyTo(t, q, []string{"_http._tcp.web.mesh. 5 IN SRV 0 0 80 a.web.mesh."}, nil)
	require.NoError(t, checkAlways(q, r))
	// The same record with its target as a label and a pointer to the question's rest.
	record := r.layout.records[0]
	short := append([]byte{}, r.wire[:record.data+6]...)
	short = append(short, 1, 'a', 0xc0, 12+6+5)
	short[record.data-1] = 6 + 4
	short = append(short, r.wire[record.data+record.length:]...)
	r, err := newReply(r.sent, short, q.server, q.transport, 0)
	require.NoError(t, err)
	assert.ErrorContains(t, checkAlways(q, r), "C70")
}

// TestExpectations judges two replies by lines of scripts; those with ! before them must
// fail.
func TestExpectations(t *testing.T) {
	positive := testQuestion("web.mesh.", dns.TypeA)
	positiveReply := replyTo(t, positive, []string{"web.mesh. 5 IN A 192.0.2.1", "web.mesh. 5 IN A 192.0.2.2"}, func(m *dns.Msg) {
		m.IsEdns0().Option = append(m.IsEdns0().Option, &dns.EDNS0_EDE{InfoCode: 3})
	})
	negative := testQuestion("absent.mesh.", dns.TypeA)
	negativeReply := replyTo(t, negative, []string{testSOA}, func(m *dns.Msg) { m.Rcode = dns.RcodeNameError })
	srv := testQuestion("_http._tcp.web.mesh.", dns.TypeSRV)
	srvReply := replyTo(t, srv, []string{"_http._tcp.web.mesh. 5 IN SRV 0 7 80 A.web.mesh."}, nil)
	for _, test := range []struct {
		q     *question
		r     *reply
		lines string
	}{
		{positive, positiveReply, `is POS
!is NODATA mesh.
!is REFUSED
rcode NOERROR
!rcode NXDOMAIN
flags qr aa !tc
!flags tc
!flags !aa
answer web.mesh. 5 IN A 192.0.2.2 | answer WEB.mesh. * IN A 192.0.2.1
!answer web.mesh. 5 IN A 192.0.2.2
!answer web.mesh. 6 IN A 192.0.2.2 | answer web.mesh. 5 IN A 192.0.2.1
!answer none
authority none
additional none
addresses 192.0.2.2 192.0.2.1
!addresses 192.0.2.2
!addresses 192.0.2.2 192.0.2.1 192.0.2.3
!addresses none
ttl 5
!ttl 1..4
count answer 2
!count answer >=3
size <=512
!size 10
edns size=1232 version=0 options=15
!edns size=4096
!edns none
ede 3
!ede none
!ede 3 14
soa none
!soa mesh.
chain none
!chain x.mesh.
within 1s
shows web.mesh.*192
!shows nosuch
!question none
!nosuch word`},
		{negative, negativeReply, `is NXDOMAIN mesh.
!is NXDOMAIN other.
!is NODATA mesh.
!is POS
soa mesh. 5
!soa mesh. 6
!soa none
addresses none
answer none
authority mesh. 5 IN SOA ns.dns.mesh. ns.dns.mesh. 1 7200 900 1209600 5`},
		{srv, srvReply, `is POS
srv 80 a.web.mesh
!srv 81 a.web.mesh
!srv none`},
	} {
		for _, text := range strings.Split(test.lines, "\n") {
			body, fails := bodyOf(t, text)
			err := checkBody(&check{ctx: t.Context(), question: *test.q, reply: test.r}, body)
			if fails {
				assert.Error(t, err, text)
			} else {
				assert.NoError(t, err, text)
			}
		}
	}
}

// bodyOf reads lines that are divided by |; a ! in front says that they must fail.
func bodyOf(t *testing.T, text string) (body []Line, fails bool) {
	t.Helper()
	text, fails = strings.CutPrefix(text, "!")
	for i, part := range strings.Split(text, "|") {
		words, bare, err := split(strings.TrimSpace(part))
		require.NoError(t, err)
		body = append(body, Line{Number: i + 1, Words: words, Text: bare})
	}
	return body, fails
}

func TestChiSquare(t *testing.T) {
	fair := [][]string{}
	rotated := [][]string{}
	skewed := [][]string{}
	records := []string{"a", "b", "c"}
	permutations := [][]string{{"a", "b", "c"}, {"a", "c", "b"}, {"b", "a", "c"}, {"b", "c", "a"}, {"c", "a", "b"}, {"c", "b", "a"}}
	for i := range 3000 {
		fair = append(fair, permutations[i%6])
		rotated = append(rotated, []string{records[i%3], records[(i+1)%3], records[(i+2)%3]})
		skewed = append(skewed, permutations[i*i%6])
	}
	first, pairs := Line{Text: "first uniform"}, Line{Text: "pairs uniform"}
	assert.NoError(t, checkOrder(fair, first))
	assert.NoError(t, checkOrder(fair, pairs))
	assert.NoError(t, checkOrder(rotated, first))
	assert.Error(t, checkOrder(rotated, pairs), "a rotation is no shuffle")
	assert.Error(t, checkOrder(skewed, first))
	assert.Error(t, checkOrder([][]string{{"a", "b"}, {"a", "c"}}, first), "records differ")
	drawn := Line{Text: "drawn uniform"}
	assert.NoError(t, checkOrder(fair, drawn))
	assert.Error(t, checkOrder(append(fair, []string{"a", "d"}), drawn), "what is never first")
	weighted := Line{Words: []string{"first", "192.0.2.1=2", "192.0.2.2=1"}}
	var two [][]string
	for i := range 300 {
		one, other := "192.0.2.1", "192.0.2.2"
		if i%3 == 0 {
			one, other = other, one
		}
		two = append(two, []string{one, other})
	}
	assert.NoError(t, checkOrder(two, weighted))
	weighted.Words[1] = "192.0.2.1=1"
	assert.Error(t, checkOrder(two, weighted))
}

func TestCheckMetric(t *testing.T) {
	page := `# TYPE x_total counter
x_total{proto="udp",rcode="NOERROR"} 3
x_total{proto="tcp",rcode="NOERROR"} 1
x_total_more 9
`
	assert.NoError(t, checkMetric(page, "x_total", "4"))
	assert.NoError(t, checkMetric(page, `x_total{proto="udp"}`, "3"))
	assert.NoError(t, checkMetric(page, "y", "absent"))
	assert.Error(t, checkMetric(page, "y", "0"))
	assert.Error(t, checkMetric(page, "x_total", "absent"))
	assert.Error(t, checkMetric(page, `x_total{proto="udp"}`, "4"))
}

func TestCheckPage(t *testing.T) {
	page := `{"rcode":"NOERROR","steps":["zone mesh","view 3"],"endpoints":[{"address":"192.0.2.1","port":80,"included":true,"reason":"ready"}]}`
	for _, text := range []string{
		"field rcode=NOERROR", "!field rcode=NXDOMAIN", "!field nosuch=1",
		"item address=192.0.2.1 port=80 included=true reason~^re", "!item address=192.0.2.1 included=false",
		"no-item address=192.0.2.9", "!no-item port=80", "items 1", "!items 2", `step "zone mesh"`, "!step nothing",
		"body rcode", "!body nosuch", "not-body nosuch", "!nosuch word",
	} {
		body, fails := bodyOf(t, text)
		err := checkPage(page, body[0])
		assert.Equal(t, fails, err != nil, "%s: %v", text, err)
	}
}
