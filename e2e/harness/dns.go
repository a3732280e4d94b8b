package harness

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"
)

// askWithin bounds one exchange. A query never waits in the product, so a lost reply on
// loopback is a fault and is not asked again.
const askWithin = 3 * time.Second

// Question is what to ask and how.
type Question struct {
	Name string // with or without the final dot; sent in this spelling
	Type string // A, AAAA, SRV …
	TCP  bool
	Size uint16 // advertised over EDNS; 0 sends no OPT
}

// Parse reads "NAME TYPE".
func Parse(text string) (Question, error) {
	fields := strings.Fields(text)
	if len(fields) != 2 {
		return Question{}, fmt.Errorf("question %q is not NAME TYPE", text)
	}
	return Question{Name: fields[0], Type: fields[1], Size: 1232}, nil
}

func (q Question) String() string {
	transport := "UDP"
	if q.TCP {
		transport = "TCP"
	}
	return fmt.Sprintf("%s %s over %s, EDNS size %d", q.Name, q.Type, transport, q.Size)
}

// message is the query in DNS form.
func (q Question) message() (*dns.Msg, error) {
	kind, ok := dns.StringToType[q.Type]
	if !ok {
		return nil, fmt.Errorf("unknown type %q", q.Type)
	}
	m := new(dns.Msg).SetQuestion(dns.Fqdn(q.Name), kind)
	if q.Size > 0 {
		m.SetEdns0(q.Size, false)
	}
	return m, nil
}

// Ask asks the server at addr once.
func Ask(addr string, q Question) (*dns.Msg, error) {
	query, err := q.message()
	if err != nil {
		return nil, err
	}
	client := dns.Client{Net: "udp", Timeout: askWithin, UDPSize: 65535}
	if q.TCP {
		client.Net = "tcp"
	}
	reply, _, err := client.Exchange(query, addr)
	if err != nil {
		return nil, fmt.Errorf("ask %s for %s: %w", addr, q, err)
	}
	return reply, nil
}

// Resolve asks as stub resolvers do: over UDP, and over TCP when the reply was cut.
func Resolve(addr string, q Question) (*dns.Msg, error) {
	reply, err := Ask(addr, q)
	if err != nil || !reply.Truncated || q.TCP {
		return reply, err
	}
	q.TCP = true
	return Ask(addr, q)
}

// Summary is a reply as one line: the rcode when it is an error, NODATA when the answer
// is empty, else the data of all answers in order of text. SRV records are their port and
// target; an alias is "CNAME target".
func Summary(reply *dns.Msg) string {
	if reply.Rcode != dns.RcodeSuccess {
		// Aliases in front of a missing name stay visible.
		return strings.Join(append(answers(reply), dns.RcodeToString[reply.Rcode]), ", ")
	}
	if len(reply.Answer) == 0 {
		return "NODATA"
	}
	return strings.Join(answers(reply), ", ")
}

func answers(reply *dns.Msg) []string {
	var all []string
	for _, rr := range reply.Answer {
		all = append(all, data(rr))
	}
	slices.Sort(all)
	return all
}

// data is a record without its owner, TTL and class, and names without the final dot.
func data(rr dns.RR) string {
	switch rr := rr.(type) {
	case *dns.A:
		return rr.A.String()
	case *dns.AAAA:
		return rr.AAAA.String()
	case *dns.SRV:
		return fmt.Sprintf("%d %s", rr.Port, bare(rr.Target))
	case *dns.CNAME:
		return "CNAME " + bare(rr.Target)
	case *dns.PTR:
		return bare(rr.Ptr)
	default:
		return strings.TrimSpace(strings.TrimPrefix(rr.String(), rr.Header().String()))
	}
}

func bare(name string) string { return strings.TrimSuffix(name, ".") }

// Addresses are the addresses of a reply's answers, in order of text.
func Addresses(reply *dns.Msg) []string {
	var all []string
	for _, rr := range reply.Answer {
		switch rr := rr.(type) {
		case *dns.A:
			all = append(all, rr.A.String())
		case *dns.AAAA:
			all = append(all, rr.AAAA.String())
		}
	}
	slices.Sort(all)
	return all
}

// ExtendedErrors are the extended DNS errors of a reply (RFC 8914).
func ExtendedErrors(reply *dns.Msg) []uint16 {
	var codes []uint16
	if opt := reply.IsEdns0(); opt != nil {
		for _, option := range opt.Option {
			if ede, ok := option.(*dns.EDNS0_EDE); ok {
				codes = append(codes, ede.InfoCode)
			}
		}
	}
	return codes
}

// Lint checks what every reply of an authoritative server about its own zones has to
// keep (DNS_RULES 1, 2, 4, 28).
func Lint(q Question, reply *dns.Msg) error {
	var errs []error
	complain := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if len(reply.Question) != 1 || reply.Question[0].Name != dns.Fqdn(q.Name) {
		complain("question not copied as spelled: %v", reply.Question)
	}
	if len(reply.Answer) > 0 && reply.Answer[0].Header().Name != dns.Fqdn(q.Name) {
		complain("the answer's owner %s is not spelled as asked", reply.Answer[0].Header().Name)
	}
	if reply.RecursionAvailable || reply.AuthenticatedData || reply.CheckingDisabled {
		complain("RA, AD or CD is set")
	}
	if own := reply.Rcode == dns.RcodeSuccess || reply.Rcode == dns.RcodeNameError; own != reply.Authoritative {
		complain("AA is %v with %s", reply.Authoritative, dns.RcodeToString[reply.Rcode])
	}
	if (q.Size > 0) != (reply.IsEdns0() != nil) {
		complain("OPT in the reply is %v", reply.IsEdns0() != nil)
	}
	if err := lintAuthority(reply); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// lintAuthority checks the SOA: one in negative answers, none in failures.
func lintAuthority(reply *dns.Msg) error {
	var soas []*dns.SOA
	for _, rr := range reply.Ns {
		if soa, ok := rr.(*dns.SOA); ok {
			soas = append(soas, soa)
		}
	}
	negative := reply.Rcode == dns.RcodeNameError || reply.Rcode == dns.RcodeSuccess && len(reply.Answer) == 0
	switch {
	case len(reply.Answer) > 0 && reply.Answer[0].Header().Rrtype == dns.TypeCNAME:
		return nil // the end of the chain may be in another zone
	case negative && reply.Truncated:
		return nil // cut, not negative
	case negative && len(soas) != 1:
		return fmt.Errorf("%d SOA records in a negative answer", len(soas))
	case !negative && len(soas) != 0:
		return fmt.Errorf("an SOA in AUTHORITY of %s", Summary(reply))
	case negative && soas[0].Hdr.Ttl != soas[0].Minttl:
		return fmt.Errorf("SOA TTL %d is not its MINIMUM %d", soas[0].Hdr.Ttl, soas[0].Minttl)
	}
	return nil
}

// Poller asks one question over one connected UDP socket as fast as it is answered, for
// measurements. It is for one goroutine.
type Poller struct {
	conn  net.Conn
	query []byte
	id    uint16
	reply []byte
}

// NewPoller prepares the question.
func NewPoller(addr string, q Question) (*Poller, error) {
	message, err := q.message()
	if err != nil {
		return nil, err
	}
	query, err := message.Pack()
	if err != nil {
		return nil, fmt.Errorf("pack %s: %w", q, err)
	}
	conn, err := net.Dial("udp", addr)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", addr, err)
	}
	return &Poller{conn: conn, query: query, reply: make([]byte, 65535)}, nil
}

// Ask asks once. The reply is unpacked into m.
func (p *Poller) Ask(m *dns.Msg) error {
	p.id++
	p.query[0], p.query[1] = byte(p.id>>8), byte(p.id)
	if err := p.conn.SetDeadline(time.Now().Add(askWithin)); err != nil {
		return err
	}
	if _, err := p.conn.Write(p.query); err != nil {
		return err
	}
	for {
		n, err := p.conn.Read(p.reply)
		if err != nil {
			return err
		}
		if err := m.Unpack(p.reply[:n]); err != nil {
			return fmt.Errorf("unpack a reply of %d bytes: %w", n, err)
		}
		if m.Id == p.id {
			return nil
		}
	}
}

// Close closes the socket.
func (p *Poller) Close() error { return p.conn.Close() }
