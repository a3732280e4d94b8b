package dns

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	mdns "github.com/miekg/dns"
)

const (
	// SystemUpstreams is the word that stands for the nameservers of resolv.conf.
	SystemUpstreams = "system"
	// DefaultResolvConf is where the system keeps its nameservers.
	DefaultResolvConf = "/etc/resolv.conf"
	// defaultPort is the port of an upstream that is written without one.
	defaultPort = 53
	// reloadEvery is how often resolv.conf is looked at: half of the 10 s in which a
	// change has to be taken up (DNS_RULES 41), so that the next lookups fit in too.
	reloadEvery = 5 * time.Second
	// penalty is how long a server that gave no reply is asked after the others.
	penalty = 10 * time.Second
)

// ParseServer reads the address of a DNS server: "192.0.2.1", "192.0.2.1:5353",
// "2001:db8::1", "[2001:db8::1]:5353", "fe80::1%eth0". Without a port it is 53; port 0
// and host names are errors.
func ParseServer(text string) (netip.AddrPort, error) { return parseServer(text, defaultPort) }

func parseServer(text string, port uint16) (netip.AddrPort, error) {
	bare := text
	if strings.HasPrefix(bare, "[") && strings.HasSuffix(bare, "]") {
		bare = bare[1 : len(bare)-1]
	}
	if addr, err := netip.ParseAddr(bare); err == nil {
		return netip.AddrPortFrom(addr.Unmap(), port), nil
	}
	server, err := netip.ParseAddrPort(text)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("server %q: want an IP address, with a port or without", text)
	}
	if server.Port() == 0 {
		return netip.AddrPort{}, fmt.Errorf("server %q: port 0", text)
	}
	return netip.AddrPortFrom(server.Addr().Unmap(), server.Port()), nil
}

// upstreams is the list of servers to ask. It is safe for concurrent use.
type upstreams struct {
	path  string // of resolv.conf
	port  uint16 // of its nameservers
	clock Clock
	log   *slog.Logger

	mu      sync.Mutex
	list    []string         // as configured: addresses and SystemUpstreams
	system  []netip.AddrPort // last good nameservers of resolv.conf
	content []byte           // of resolv.conf when it was last read
	err     error            // why system is empty, or out of date
	late    map[netip.AddrPort]time.Time
}

// newUpstreams checks list and reads resolv.conf once, if it is in it. Only a bad list is
// an error: resolv.conf may become good later.
func newUpstreams(cfg Config) (*upstreams, error) {
	u := &upstreams{path: cfg.ResolvConf, port: cfg.Port, clock: cfg.Clock, log: cfg.Logger,
		late: make(map[netip.AddrPort]time.Time)}
	if err := u.set(cfg.Upstreams); err != nil {
		return nil, err
	}
	return u, nil
}

// set replaces the configured list.
func (u *upstreams) set(list []string) error {
	if len(list) == 0 {
		return errors.New("upstreams: none configured")
	}
	for _, text := range list {
		if text == SystemUpstreams {
			continue
		}
		if _, err := parseServer(text, u.port); err != nil {
			return fmt.Errorf("upstreams: %w", err)
		}
	}
	u.mu.Lock()
	u.list = slices.Clone(list)
	u.mu.Unlock()
	u.reload()
	return nil
}

// reload reads resolv.conf, where it is used, and says whether the servers changed. A
// file that cannot be read, or names no server, leaves the last good ones in place: it
// may be in the middle of being written.
func (u *upstreams) reload() (changed bool) {
	content, err := os.ReadFile(u.path) // outside of the lock: lookups need it
	u.mu.Lock()
	defer u.mu.Unlock()
	if !slices.Contains(u.list, SystemUpstreams) {
		return false
	}
	if err != nil {
		u.content = nil
		u.failLocked(fmt.Errorf("reading nameservers: %w", err))
		return false
	}
	if u.content != nil && bytes.Equal(content, u.content) {
		return false
	}
	u.content = append([]byte{}, content...) // never nil again, even if empty
	servers, err := u.nameservers(content)
	if err != nil {
		u.failLocked(err)
		return false
	}
	u.err = nil
	changed = !slices.Equal(servers, u.system)
	u.system = servers
	if changed {
		u.log.Info("nameservers read", "file", u.path, "servers", servers)
	}
	return changed
}

// failLocked notes err, and logs it when it is another one than before. mu must be held.
func (u *upstreams) failLocked(err error) {
	if u.err == nil || u.err.Error() != err.Error() {
		u.log.Warn("nameservers not read", "file", u.path, "error", err, "kept", u.system)
	}
	u.err = err
}

// nameservers are those of a resolv.conf; its search list and options are not ours.
func (u *upstreams) nameservers(content []byte) ([]netip.AddrPort, error) {
	conf, err := mdns.ClientConfigFromReader(bytes.NewReader(content))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", u.path, err)
	}
	var out []netip.AddrPort
	var bad error
	for _, text := range conf.Servers {
		addr, err := netip.ParseAddr(text)
		if err != nil {
			bad = fmt.Errorf("%s: nameserver %q is no IP address", u.path, text)
			continue
		}
		out = append(out, netip.AddrPortFrom(addr.Unmap(), u.port))
	}
	switch {
	case len(out) > 0:
		return out, nil
	case bad != nil:
		return nil, bad
	}
	return nil, fmt.Errorf("%s: no nameserver lines", u.path)
}

// servers are the servers in the order to ask: as configured, but those that gave no
// reply lately after the others. An empty list is an error.
func (u *upstreams) servers() ([]netip.AddrPort, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	out := u.allLocked()
	if len(out) == 0 {
		return nil, fmt.Errorf("no upstream servers: %w", u.err)
	}
	now := u.clock.Now()
	slices.SortStableFunc(out, func(a, b netip.AddrPort) int { return u.rankLocked(a, now) - u.rankLocked(b, now) })
	return out, nil
}

// allLocked are all servers as configured, each once. mu must be held.
func (u *upstreams) allLocked() []netip.AddrPort {
	var out []netip.AddrPort
	add := func(servers ...netip.AddrPort) {
		for _, server := range servers {
			if !slices.Contains(out, server) {
				out = append(out, server)
			}
		}
	}
	for _, text := range u.list {
		if text == SystemUpstreams {
			add(u.system...)
		} else if server, err := parseServer(text, u.port); err == nil { // always: set checked it
			add(server)
		}
	}
	return out
}

// rankLocked is 1 of a server that gave no reply lately, else 0. mu must be held.
func (u *upstreams) rankLocked(server netip.AddrPort, now time.Time) int {
	if until, ok := u.late[server]; ok && now.Before(until) {
		return 1
	}
	return 0
}

// replied notes whether server gave a reply at all.
func (u *upstreams) replied(server netip.AddrPort, ok bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if ok {
		delete(u.late, server)
		return
	}
	u.late[server] = u.clock.Now().Add(penalty)
}
