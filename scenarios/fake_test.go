package scenarios

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"
)

// fakeServer is a server under test of our own, to test the runner: it answers what
// answer says, on the sockets that a Launch names.
type fakeServer struct {
	t      *testing.T
	answer func(query *dns.Msg) *dns.Msg
	pages  map[string]string // admin pages by path
	log    string
	stop   func()
}

// start is a Config.Start.
func (f *fakeServer) start(_ context.Context, l Launch) (Server, error) {
	f.t.Helper()
	udp, err := net.ListenPacket("udp", l.DNS)
	require.NoError(f.t, err)
	tcp, err := net.Listen("tcp", l.DNS)
	require.NoError(f.t, err)
	admin, err := net.Listen("tcp", l.Admin)
	require.NoError(f.t, err)
	overTCP := &dns.Server{Listener: tcp, Handler: dns.HandlerFunc(f.handle)}
	page := &http.Server{Handler: http.HandlerFunc(f.page)}
	var wg sync.WaitGroup
	wg.Go(func() { f.serveUDP(udp) })
	wg.Go(func() { _ = overTCP.ActivateAndServe() })
	wg.Go(func() { _ = page.Serve(admin) })
	f.stop = func() {
		udp.Close()
		tcp.Close()
		page.Close()
		wg.Wait()
	}
	return f, nil
}

func (f *fakeServer) handle(w dns.ResponseWriter, query *dns.Msg) {
	if m := f.answer(query); m != nil {
		if err := w.WriteMsg(m); err != nil && !errors.Is(err, net.ErrClosed) {
			f.t.Error(err)
		}
	}
}

// serveUDP is stricter than dns.Server: what is malformed gets no reply.
func (f *fakeServer) serveUDP(conn net.PacketConn) {
	buf := make([]byte, 1<<16)
	for {
		n, from, err := conn.ReadFrom(buf)
		if err != nil {
			return
		}
		query := new(dns.Msg)
		if query.Unpack(buf[:n]) != nil || query.Response || query.Opcode != dns.OpcodeQuery || len(query.Question) != 1 {
			continue
		}
		if m := f.answer(query); m != nil {
			if _, err := conn.WriteTo(pack(m), from); err != nil && !errors.Is(err, net.ErrClosed) {
				f.t.Error(err)
			}
		}
	}
}

func (f *fakeServer) page(w http.ResponseWriter, r *http.Request) {
	if page, ok := f.pages[r.URL.RequestURI()]; ok {
		_, _ = w.Write([]byte(page))
		return
	}
	http.NotFound(w, r)
}

func (f *fakeServer) Log() string    { return f.log }
func (f *fakeServer) Running() error { return nil }
func (f *fakeServer) Stop() error {
	f.stop()
	return nil
}

// answerFrom answers from records as an authoritative server of mesh. would.
func answerFrom(t *testing.T, records ...string) func(*dns.Msg) *dns.Msg {
	t.Helper()
	var all []dns.RR
	for _, text := range records {
		rr, err := dns.NewRR(text)
		require.NoError(t, err)
		all = append(all, rr)
	}
	soa, err := dns.NewRR(testSOA)
	require.NoError(t, err)
	return func(query *dns.Msg) *dns.Msg { return authoritative(query, all, soa) }
}

func authoritative(query *dns.Msg, records []dns.RR, soa dns.RR) *dns.Msg {
	m := new(dns.Msg).SetReply(query)
	m.Compress, m.CheckingDisabled = true, false
	if opt := query.IsEdns0(); opt != nil {
		m.SetEdns0(ednsSize, false)
	}
	q := query.Question[0]
	if !dns.IsSubDomain("mesh.", q.Name) {
		m.Rcode = dns.RcodeRefused
		return m
	}
	m.Authoritative = true
	exists := false
	for _, rr := range records {
		if !sameName(rr.Header().Name, q.Name) {
			continue
		}
		exists = true
		if rr.Header().Rrtype == q.Qtype {
			own := dns.Copy(rr)
			own.Header().Name = q.Name
			m.Answer = append(m.Answer, own)
		}
	}
	if !exists {
		m.Rcode = dns.RcodeNameError
	}
	if len(m.Answer) == 0 {
		m.Ns = []dns.RR{soa}
	}
	return m
}

// runText runs a script against f.
func runText(t *testing.T, f *fakeServer, text string) error {
	t.Helper()
	script, err := Parse("scripts/test.txtar", []byte(text))
	require.NoError(t, err)
	if f.pages == nil {
		f.pages = map[string]string{}
	}
	f.pages["/metrics"] = "meshdns_panics_total 0\n"
	f.t = t
	return Run(t.Context(), Config{Start: f.start, Ports: NewPorts(), Dir: t.TempDir()}, script)
}

// lines joins lines of a script.
func lines(all ...string) string { return strings.Join(all, "\n") + "\n" }
