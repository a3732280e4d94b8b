package kubernetes

import (
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// freezer is a proxy whose connections can be frozen: nothing goes through any more, and
// nothing is closed.
type freezer struct {
	t        *testing.T
	listener net.Listener
	target   string
	work     sync.WaitGroup

	mu     sync.Mutex
	frozen chan struct{} // closed when the connections made until then are frozen
	ended  chan struct{}
}

func newFreezer(t *testing.T, target string) *freezer {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	f := &freezer{t: t, listener: listener, target: target, frozen: make(chan struct{}), ended: make(chan struct{})}
	f.work.Go(f.accept)
	t.Cleanup(func() {
		close(f.ended)
		_ = listener.Close()
		f.work.Wait()
	})
	return f
}

// freeze freezes the present connections; later ones work.
func (f *freezer) freeze() {
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.frozen)
	f.frozen = make(chan struct{})
}

func (f *freezer) accept() {
	for {
		client, err := f.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", f.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		f.mu.Lock()
		frozen := f.frozen
		f.mu.Unlock()
		f.work.Go(func() { f.relay(client, server, frozen) })
	}
}

// relay joins two connections until one ends, and holds them when they freeze.
func (f *freezer) relay(client, server net.Conn, frozen chan struct{}) {
	broken := make(chan struct{}, 2)
	relay := func(to, from net.Conn) {
		_, _ = io.Copy(&gate{to, frozen, f.ended}, from)
		broken <- struct{}{}
	}
	f.work.Go(func() { relay(client, server) })
	f.work.Go(func() { relay(server, client) })
	select {
	case <-broken:
		select {
		case <-frozen:
			<-f.ended // even an end does not come through
		default:
		}
	case <-f.ended:
	}
	_ = client.Close()
	_ = server.Close()
}

// gate holds what is written once it is frozen.
type gate struct {
	io.Writer
	frozen, ended chan struct{}
}

func (g *gate) Write(p []byte) (int, error) {
	select {
	case <-g.frozen:
		<-g.ended
		return 0, io.ErrClosedPipe
	default:
		return g.Writer.Write(p)
	}
}

// FAULTS 8, CASES C103: connections freeze without a reset. By the transport's pings, with
// HTTP/2; by the silence of the watch, without. Times are shortened: 30 s and 15 s of the
// pings to 1 s each, 55 s of silence to 300 ms.
func TestFrozenConnectionIsRenewed(t *testing.T) {
	for _, tc := range []struct {
		name string
		tls  bool
	}{{"HTTP/2", true}, {"HTTP/1.1", false}} {
		t.Run(tc.name, func(t *testing.T) {
			t.Setenv("HTTP2_READ_IDLE_TIMEOUT_SECONDS", "1")
			t.Setenv("HTTP2_PING_TIMEOUT_SECONDS", "1")
			api := newFakeAPI(t, cluster()...).start(tc.tls)
			proxy := newFreezer(t, api.server.Listener.Addr().String())
			scheme, _, _ := strings.Cut(api.server.URL, ":")
			path := kubeconfig(t, filepath.Join(t.TempDir(), "config"), scheme+"://"+proxy.listener.Addr().String())
			raw, err := loadKubeconfig(path)
			require.NoError(t, err)
			if tc.tls { // a transport of its own, made with these times
				raw.Clusters["c"].TLSServerName = "frozen.test"
				writeKubeconfig(t, path, raw)
			}
			r := runConfig(t, Config{Kubeconfig: path}, func(s *Source) {
				if !tc.tls {
					s.timing.silence = 300 * time.Millisecond
				}
			}).untilSynced(t)
			before := r.count()
			proxy.freeze()
			start := time.Now()
			api.put(newService("s3"))
			r.untilText(t, append(clusterText, "shop/s3 ")...)
			t.Logf("found and renewed after %v", time.Since(start).Round(time.Millisecond))
			require.Equal(t, before+1, r.count())
		})
	}
}
