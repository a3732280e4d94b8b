package harness

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
)

// Proxy is a TCP proxy in front of an API server, to take the network away and give it
// back. Its methods may be called from any goroutine.
type Proxy struct {
	Port   int
	target string

	mu       sync.Mutex
	listener net.Listener // nil while cut
	links    map[*link]bool
}

// link is one connection through the proxy.
type link struct {
	in, out *net.TCPConn

	mu     sync.Mutex
	thawed chan struct{} // closed unless frozen
}

// NewProxy listens on a free port for connections to a port of this machine.
func NewProxy(target int) (*Proxy, error) {
	port, err := FreePort()
	if err != nil {
		return nil, err
	}
	p := &Proxy{Port: port, target: Loopback(target), links: map[*link]bool{}}
	return p, p.Restore()
}

// Restore accepts connections, again after Cut.
func (p *Proxy) Restore() error {
	listener, err := net.Listen("tcp", Loopback(p.Port))
	if err != nil {
		return fmt.Errorf("proxy: %w", err)
	}
	p.mu.Lock()
	p.listener = listener
	p.mu.Unlock()
	go p.accept(listener)
	return nil
}

// Cut resets all connections and refuses new ones.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != nil {
		p.listener.Close()
		p.listener = nil
	}
	for l := range p.links {
		l.reset()
	}
	clear(p.links)
}

// Freeze makes all present connections carry nothing any more without closing them, as a
// firewall that forgot them does. New connections work.
func (p *Proxy) Freeze() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.freeze()
	}
}

func (p *Proxy) accept(listener net.Listener) {
	for {
		in, err := listener.Accept()
		if err != nil {
			return // cut
		}
		out, err := net.Dial("tcp", p.target)
		if err != nil {
			in.Close()
			continue
		}
		p.join(listener, in.(*net.TCPConn), out.(*net.TCPConn))
	}
}

// join copies both ways, unless the proxy was cut meanwhile.
func (p *Proxy) join(listener net.Listener, in, out *net.TCPConn) {
	l := &link{in: in, out: out, thawed: make(chan struct{})}
	close(l.thawed)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != listener {
		l.reset()
		return
	}
	p.links[l] = true
	go p.copy(l, l.in, l.out)
	go p.copy(l, l.out, l.in)
}

func (p *Proxy) copy(l *link, from, to *net.TCPConn) {
	_, err := io.Copy(to, gate{l, from})
	if err != nil && !errors.Is(err, net.ErrClosed) {
		l.reset()
	}
	l.in.Close()
	l.out.Close()
	p.mu.Lock()
	delete(p.links, l)
	p.mu.Unlock()
}

// gate reads from a connection of a link, and stops for good while the link is frozen.
type gate struct {
	link *link
	conn *net.TCPConn
}

func (g gate) Read(b []byte) (int, error) {
	n, err := g.conn.Read(b)
	g.link.mu.Lock()
	thawed := g.link.thawed
	g.link.mu.Unlock()
	<-thawed
	return n, err
}

func (l *link) freeze() {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.thawed:
		l.thawed = make(chan struct{})
	default: // frozen already
	}
}

// reset closes both sides with RST and lets go of what a freeze held.
func (l *link) reset() {
	for _, conn := range []*net.TCPConn{l.in, l.out} {
		_ = conn.SetLinger(0) // fails on a closed connection only
		conn.Close()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.thawed:
	default:
		close(l.thawed)
	}
}
