package dns

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	mdns "github.com/miekg/dns"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/meshdns/meshdns/names"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testServer is a DNS server on loopback, UDP and TCP on one port, that answers as it was
// told, question by question, and remembers what it was asked.
type testServer struct {
	t    testing.TB
	addr netip.AddrPort

	mu      sync.Mutex
	replies map[Question][]behaviour
	asked   []askedQuery
}

// askedQuery is one query as it came in.
type askedQuery struct {
	Question
	proto string
	from  netip.AddrPort
	msg   *mdns.Msg
}

// behaviour makes a reply; nil bytes stand for silence.
type behaviour func(req *mdns.Msg, proto string) []byte

func newTestServer(t testing.TB) *testServer {
	t.Helper()
	return serve(t, &testServer{t: t, replies: make(map[Question][]behaviour)}, "127.0.0.1:0")
}

// serve starts s at an address; port 0 stands for any.
func serve(t testing.TB, s *testServer, at string) *testServer {
	t.Helper()
	conn, listener := listenBoth(t, at)
	s.addr = netip.MustParseAddrPort(conn.LocalAddr().String())
	for _, server := range []*mdns.Server{{PacketConn: conn, Handler: s}, {Listener: listener, Handler: s}} {
		started := make(chan struct{})
		ended := make(chan error, 1)
		server.NotifyStartedFunc = func() { close(started) }
		go func() { ended <- server.ActivateAndServe() }()
		<-started
		t.Cleanup(func() {
			require.NoError(t, server.Shutdown())
			require.NoError(t, <-ended)
		})
	}
	return s
}

// listenBoth opens one port for UDP and TCP; another process may have one of the two.
func listenBoth(t testing.TB, at string) (net.PacketConn, net.Listener) {
	t.Helper()
	for range 50 {
		conn, err := net.ListenPacket("udp", at)
		require.NoError(t, err)
		listener, err := net.Listen("tcp", conn.LocalAddr().String())
		if err == nil {
			return conn, listener
		}
		conn.Close()
	}
	t.Fatal("no port that is free for UDP and TCP")
	return nil, nil
}

// on says how a question is answered: the behaviours one after the other, the last one
// again and again. Type text may be several, by commas.
func (s *testServer) on(name, types string, behaviours ...behaviour) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, text := range strings.Split(types, ",") {
		qtype, err := TypeFromText(text)
		require.NoError(s.t, err)
		s.replies[Question{names.MustParse(name), qtype}] = behaviours
	}
}

// count is how many queries there were for a name and type, or for all with "" and 0.
func (s *testServer) count(name string, qtype uint16) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, q := range s.asked {
		if name == "" || q.Name == names.MustParse(name) && q.Type == qtype {
			n++
		}
	}
	return n
}

func (s *testServer) queries() []askedQuery {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]askedQuery(nil), s.asked...)
}

func (s *testServer) ServeDNS(w mdns.ResponseWriter, req *mdns.Msg) {
	from := netip.MustParseAddrPort(w.RemoteAddr().String())
	proto := w.RemoteAddr().Network()
	q := Question{names.MustParse(req.Question[0].Name), req.Question[0].Qtype}
	s.mu.Lock()
	s.asked = append(s.asked, askedQuery{q, proto, from, req})
	answer := rcode(mdns.RcodeRefused)
	if list := s.replies[q]; len(list) > 0 {
		answer = list[0]
		if len(list) > 1 {
			s.replies[q] = list[1:]
		}
	}
	s.mu.Unlock()
	if raw := answer(req, proto); raw != nil {
		_, _ = w.Write(raw) // the client may have gone
	}
}

// says is a reply of the given rcode with records as text: those of "-" go to authority.
func says(code int, records ...string) behaviour {
	return func(req *mdns.Msg, _ string) []byte {
		msg := new(mdns.Msg).SetRcode(req, code)
		msg.RecursionAvailable = true
		msg.Compress = true
		for _, text := range records {
			authority := strings.HasPrefix(text, "-")
			rr, err := mdns.NewRR(strings.TrimPrefix(text, "-"))
			if err != nil {
				panic(err)
			}
			if authority {
				msg.Ns = append(msg.Ns, rr)
			} else {
				msg.Answer = append(msg.Answer, rr)
			}
		}
		return packed(msg)
	}
}

func packed(msg *mdns.Msg) []byte {
	raw, err := msg.Pack()
	if err != nil {
		panic(err)
	}
	return raw
}

func rrs(records ...string) behaviour { return says(mdns.RcodeSuccess, records...) }
func rcode(code int) behaviour        { return says(code) }
func silence(*mdns.Msg, string) []byte {
	return nil
}

// soa is an authority record; its TTL and MINIMUM are both seconds.
func soa(zone, seconds string) string {
	return "-" + zone + " " + seconds + " IN SOA ns." + zone + " root." + zone + " 1 60 60 60 " + seconds
}

func noSuchType(zone, seconds string) behaviour { return rrs(soa(zone, seconds)) }
func noSuchName(zone, seconds string) behaviour {
	return says(mdns.RcodeNameError, soa(zone, seconds))
}

// after answers when gate is closed, or the test's patience ends.
func after(gate <-chan struct{}, then behaviour) behaviour {
	return func(req *mdns.Msg, proto string) []byte {
		select {
		case <-gate:
		case <-time.After(patience):
		}
		return then(req, proto)
	}
}

// late answers after a network's latency.
func late(d time.Duration, then behaviour) behaviour {
	return func(req *mdns.Msg, proto string) []byte {
		<-time.After(d)
		return then(req, proto)
	}
}

// overUDP answers one way over UDP and another way over TCP.
func overUDP(udp, tcp behaviour) behaviour {
	return func(req *mdns.Msg, proto string) []byte {
		if proto == "udp" {
			return udp(req, proto)
		}
		return tcp(req, proto)
	}
}

// patience is how long tests wait for what has to happen.
const patience = 20 * time.Second

// rawServer is a UDP socket whose every datagram is answered by handle, which may send
// what it likes.
func rawServer(t testing.TB, handle func(conn net.PacketConn, from net.Addr, req *mdns.Msg)) netip.AddrPort {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		buf := make([]byte, 4096)
		for {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			req := new(mdns.Msg)
			if req.Unpack(buf[:n]) == nil {
				handle(conn, from, req)
			}
		}
	}()
	t.Cleanup(func() { conn.Close(); <-ended })
	return netip.MustParseAddrPort(conn.LocalAddr().String())
}

// deadServer is a loopback port that nobody listens on.
func deadServer(t testing.TB) netip.AddrPort {
	t.Helper()
	conn, listener := listenBoth(t, "127.0.0.1:0")
	addr := netip.MustParseAddrPort(conn.LocalAddr().String())
	require.NoError(t, conn.Close())
	require.NoError(t, listener.Close())
	return addr
}

func testContext(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

func addrs(texts ...string) []netip.Addr {
	var out []netip.Addr
	for _, text := range texts {
		out = append(out, netip.MustParseAddr(text))
	}
	return out
}
