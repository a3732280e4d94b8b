package server

import (
	"net/netip"
	"sync"
	"time"
)

// admission counts connections, all and by client prefix, and knows those that are open.
type admission struct {
	limits Limits

	mu       sync.Mutex
	open     map[*tcpConn]struct{}
	byPrefix map[netip.Prefix]int // of open connections; none is 0
	drainAt  time.Time            // when Shutdown began; zero before
}

func newAdmission(limits Limits) *admission {
	return &admission{
		limits:   limits,
		open:     make(map[*tcpConn]struct{}),
		byPrefix: make(map[netip.Prefix]int),
	}
}

// admit lets a connection in, until leave, or names the limit that it would exceed.
func (a *admission) admit(c *tcpConn) (limit string) {
	client := c.transport.Client.Addr()
	prefix := clientPrefix(client)
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.open) >= a.limits.Connections {
		return "total"
	}
	if a.byPrefix[prefix] >= a.limits.ConnectionsPerPrefix && !a.exempt(client) {
		return "prefix"
	}
	a.open[c] = struct{}{}
	a.byPrefix[prefix]++
	if !a.drainAt.IsZero() {
		c.drain(a.drainAt)
	}
	return ""
}

func (a *admission) exempt(client netip.Addr) bool {
	client = client.WithZone("")
	for _, prefix := range a.limits.Exempt {
		if prefix.Contains(client) {
			return true
		}
	}
	return false
}

func (a *admission) leave(c *tcpConn) {
	prefix := clientPrefix(c.transport.Client.Addr())
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.open, c)
	if a.byPrefix[prefix]--; a.byPrefix[prefix] == 0 {
		delete(a.byPrefix, prefix)
	}
}

// drain lets every connection, open or to come, answer what was received and end, with
// MessageTime counted from a time that may be past.
func (a *admission) drain(at time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.drainAt = at
	for c := range a.open {
		c.drain(at)
	}
}

func (a *admission) closeAll() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for c := range a.open {
		c.abort()
	}
}

// clientPrefix is what counts as one client: an IPv4 address, or an IPv6 /56, which is what
// one site is often given (RFC 6177).
func clientPrefix(client netip.Addr) netip.Prefix {
	bits := 56
	if client.Is4() {
		bits = 32
	}
	prefix, _ := client.Prefix(bits) // cannot fail: both fit, and zones are left out
	return prefix
}
