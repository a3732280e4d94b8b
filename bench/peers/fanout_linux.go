package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"

	"github.com/meshdns/meshdns/bench/stats"
)

const (
	backends = 5
	// accepted is between two looks at whether the upstream was asked.
	accepted = time.Millisecond
	// answeredWithin bounds a first question; the server gives up after 1.5 s.
	answeredWithin = 5 * time.Second
)

// upstream is the rest of the world, which takes its time.
type upstream struct {
	*dns.Server
	addr  string
	delay time.Duration
	asked atomic.Int64
	names sync.Map // asked for so far, in lower case
}

func startUpstream(delay time.Duration) (*upstream, error) {
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("upstream: %w", err)
	}
	u := &upstream{addr: conn.LocalAddr().String(), delay: delay}
	u.Server = &dns.Server{PacketConn: conn, Handler: u}
	go func() { _ = u.ActivateAndServe() }() // ends with Shutdown; failures are seen as lost answers
	return u, nil
}

// ServeDNS answers every name with one address; other types are empty.
func (u *upstream) ServeDNS(w dns.ResponseWriter, query *dns.Msg) {
	n := u.asked.Add(1)
	u.names.Store(strings.ToLower(query.Question[0].Name), true)
	reply := new(dns.Msg).SetReply(query)
	reply.RecursionAvailable = true
	if q := query.Question[0]; q.Qtype == dns.TypeA {
		address := binary.BigEndian.AppendUint32(nil, 198<<24|18<<16|uint32(n)&0xffff)
		reply.Answer = []dns.RR{&dns.A{Hdr: dns.RR_Header{Name: q.Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 300}, A: address}}
	}
	time.AfterFunc(u.delay, func() { _ = w.WriteMsg(reply) }) // who asked sees a lost answer
}

// runFanout asks for names that have just been registered, by one client and by many.
func (l *lab) runFanout(ctx context.Context) error {
	u, err := startUpstream(time.Duration(l.upstreamMillis) * time.Millisecond)
	if err != nil {
		return err
	}
	defer u.Shutdown()
	dir, err := l.folder("registry")
	if err != nil {
		return err
	}
	address, err := freeAddress()
	if err != nil {
		return err
	}
	p, err := l.startMeshdns(meshConfig{
		address: address, ttl: 300, clusters: fmt.Sprintf("- {name: c1, manifests: %q}\n", dir),
		more: fmt.Sprintf("registryDir: %q\nupstreams: [%q]\n", dir, u.addr),
	})
	if err != nil {
		return err
	}
	defer p.stop()
	if err := p.await(ctx, startWithin, func() error { return l.answers(address) }); err != nil {
		return err
	}
	t := &table{title: fmt.Sprintf("## The first question for a name of %d DNS backends, each answered after %d ms, %d names", backends, l.upstreamMillis, l.fanRounds)}
	t.add("askers", "all answered, p50", "max", "first asker, p50", "upstream questions/name")
	name := 0
	for _, askers := range []int{1, l.askers} {
		if err := l.fanoutRow(t, fanTarget{dir, address, u}, askers, &name); err != nil {
			return err
		}
	}
	t.write(l.out)
	return nil
}

// answers is nil when the server answers for the mesh.
func (l *lab) answers(address string) error {
	client := dns.Client{Timeout: time.Second}
	reply, _, err := client.Exchange(new(dns.Msg).SetQuestion("absent.mesh.", dns.TypeA), address)
	if err == nil && reply.Rcode != dns.RcodeNameError {
		err = errors.New(dns.RcodeToString[reply.Rcode])
	}
	return err
}

// fanTarget is a server, the folder that it reads registry documents from, and whom it asks.
type fanTarget struct {
	dir, address string
	upstream     *upstream
}

func (l *lab) fanoutRow(t *table, to fanTarget, askers int, next *int) error {
	var all, first []time.Duration
	before := to.upstream.asked.Load()
	for range l.fanRounds {
		*next++
		took, err := to.cold(*next, askers)
		if err != nil {
			return err
		}
		first = append(first, took[0])
		all = append(all, stats.Percentile(took, 100))
	}
	t.add(fmt.Sprint(askers), millis(stats.Median(all)), millis(stats.Percentile(all, 100)), millis(stats.Median(first)),
		fmt.Sprintf("%.1f", float64(to.upstream.asked.Load()-before)/float64(l.fanRounds)))
	return nil
}

func millis(d time.Duration) string { return fmt.Sprintf("%.2f ms", float64(d.Microseconds())/1e3) }

// cold registers a name and asks for it until it is there; from then on all ask. It gives
// the time of each asker from the moment that the first question was sent which is not
// answered with "no such name": the first asker's comes first.
func (to fanTarget) cold(n, askers int) ([]time.Duration, error) {
	name := fmt.Sprintf("cold-%d.mesh", n)
	conns, err := dialAll(to.address, askers)
	if err != nil {
		return nil, err
	}
	defer func() {
		for _, c := range conns {
			c.Close()
		}
	}()
	if err := to.register(name); err != nil {
		return nil, err
	}
	query := new(dns.Msg).SetQuestion(name+".", dns.TypeA)
	began, err := to.untilItWaits(conns[0], name)
	if err != nil {
		return nil, err
	}
	took, errs := make([]time.Duration, askers), make([]error, askers)
	var asking sync.WaitGroup
	for i, c := range conns {
		asking.Go(func() {
			if i > 0 {
				errs[i] = c.WriteMsg(query.Copy())
			}
			if errs[i] == nil {
				errs[i] = awaitAll(c)
			}
			took[i] = time.Since(began)
		})
	}
	asking.Wait()
	return took, firstOf(errs)
}

// firstOf says the first of many errors and how many there are.
func firstOf(errs []error) error {
	errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	if len(errs) == 0 {
		return nil
	}
	return fmt.Errorf("%d askers failed, one with: %w", len(errs), errs[0])
}

func dialAll(address string, n int) (all []*dns.Conn, err error) {
	for range n {
		c, err := dns.Dial("udp", address)
		if err != nil {
			return all, fmt.Errorf("dial: %w", err)
		}
		all = append(all, c)
	}
	return all, nil
}

// register puts the name's document in place in one step.
func (to fanTarget) register(name string) error {
	var text strings.Builder
	fmt.Fprintf(&text, "apiVersion: meshdns.io/v1alpha1\nkind: MeshService\nmetadata: {name: %s}\nspec:\n  backends:\n", name)
	for b := range backends {
		fmt.Fprintf(&text, "  - {type: DNS, locator: %s}\n", locator(b, name))
	}
	path := filepath.Join(to.dir, name+".yaml")
	if err := os.WriteFile(path+".new", []byte(text.String()), 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// untilItWaits asks until a question has the server ask the upstream, and says when it was
// sent. Until the document has been read the answer is that there is no such name, at once
// or after a pause of the machine: that nothing has come yet does not tell the two apart.
func (to fanTarget) untilItWaits(c *dns.Conn, name string) (sent time.Time, err error) {
	query := new(dns.Msg).SetQuestion(name+".", dns.TypeA)
	for deadline := time.Now().Add(answeredWithin); time.Now().Before(deadline); {
		sent = time.Now()
		if err := c.WriteMsg(query); err != nil {
			return sent, err
		}
		waits, err := to.waits(c, name)
		if waits || err != nil {
			return sent, err
		}
	}
	return sent, fmt.Errorf("%s does not appear", name)
}

// waits is whether the question sent on c is waiting for the upstream; false: it was
// answered with "no such name".
func (to fanTarget) waits(c *dns.Conn, name string) (bool, error) {
	for deadline := time.Now().Add(answeredWithin); time.Now().Before(deadline); {
		_, asked := to.upstream.names.Load(locator(0, name) + ".")
		if err := c.SetReadDeadline(time.Now().Add(accepted)); err != nil {
			return false, err
		}
		reply, err := c.ReadMsg() // an answer of before the document may be there even now
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			if asked {
				return true, nil
			}
		case err != nil:
			return false, err
		case reply.Rcode != dns.RcodeNameError:
			return false, fmt.Errorf("%s was answered at once with %s: not its first question", name, dns.RcodeToString[reply.Rcode])
		default:
			return false, nil
		}
	}
	return false, fmt.Errorf("%s: neither an answer nor a question to the upstream", name)
}

// locator is backend b of a name.
func locator(b int, name string) string { return fmt.Sprintf("b%d.%s.example.test", b, name) }

// awaitAll reads the answer, which has an address of each backend.
func awaitAll(c *dns.Conn) error {
	if err := c.SetReadDeadline(time.Now().Add(answeredWithin)); err != nil {
		return err
	}
	reply, err := c.ReadMsg()
	if err != nil {
		return err
	}
	if len(reply.Answer) != backends {
		return fmt.Errorf("%d records of %d: %s", len(reply.Answer), backends, dns.RcodeToString[reply.Rcode])
	}
	return nil
}
