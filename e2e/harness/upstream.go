package harness

import (
	"fmt"
	"net"
	"strings"

	"github.com/miekg/dns"
)

// Upstream is an in-process DNS server that plays the rest of the world: the recursive
// resolver that the product asks.
type Upstream struct {
	Addr    string
	records map[string][]dns.RR // by lower-case owner
	udp     *dns.Server
	tcp     *dns.Server
}

// StartUpstream serves records in zone-file notation, one a string.
func StartUpstream(records ...string) (*Upstream, error) {
	u := &Upstream{records: map[string][]dns.RR{}}
	for _, text := range records {
		rr, err := dns.NewRR(text)
		if err != nil {
			return nil, fmt.Errorf("upstream record %q: %w", text, err)
		}
		owner := strings.ToLower(rr.Header().Name)
		u.records[owner] = append(u.records[owner], rr)
	}
	port, err := FreePort()
	if err != nil {
		return nil, err
	}
	u.Addr = Loopback(port)
	return u, u.listen()
}

func (u *Upstream) listen() error {
	packets, err := net.ListenPacket("udp", u.Addr)
	if err != nil {
		return fmt.Errorf("upstream: %w", err)
	}
	listener, err := net.Listen("tcp", u.Addr)
	if err != nil {
		packets.Close()
		return fmt.Errorf("upstream: %w", err)
	}
	u.udp = &dns.Server{PacketConn: packets, Handler: dns.HandlerFunc(u.answer)}
	u.tcp = &dns.Server{Listener: listener, Handler: dns.HandlerFunc(u.answer)}
	go u.udp.ActivateAndServe()
	go u.tcp.ActivateAndServe()
	return nil
}

// Close stops it.
func (u *Upstream) Close() {
	_ = u.udp.Shutdown() // errors say that it has not started: then it never will matter
	_ = u.tcp.Shutdown()
}

// answer replies as a recursive resolver does: aliases followed, RA set, AA not.
func (u *Upstream) answer(w dns.ResponseWriter, query *dns.Msg) {
	reply := new(dns.Msg).SetReply(query)
	reply.RecursionAvailable = true
	q := query.Question[0]
	known := u.follow(reply, strings.ToLower(q.Name), q.Qtype)
	if !known {
		reply.Rcode = dns.RcodeNameError
	}
	if len(reply.Answer) == 0 || !known {
		reply.Ns = append(reply.Ns, upstreamSOA())
	}
	_ = w.WriteMsg(reply) // the asker sees a timeout
}

// follow adds the records of a type and the aliases on the way; false: no such name.
func (u *Upstream) follow(reply *dns.Msg, owner string, qtype uint16) bool {
	for range 8 {
		records, ok := u.records[owner]
		if !ok {
			return false
		}
		alias := ""
		for _, rr := range records {
			if cname, ok := rr.(*dns.CNAME); ok {
				alias = strings.ToLower(cname.Target)
			}
			if rr.Header().Rrtype == qtype || rr.Header().Rrtype == dns.TypeCNAME {
				reply.Answer = append(reply.Answer, rr)
			}
		}
		if alias == "" || qtype == dns.TypeCNAME {
			return true
		}
		owner = alias
	}
	return true
}

func upstreamSOA() dns.RR {
	rr, err := dns.NewRR(". 5 IN SOA ns.test. hostmaster.test. 1 3600 600 86400 5")
	if err != nil {
		panic(err) // a constant
	}
	return rr
}
