package config

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// dnsPort is what an upstream without a port is asked at (RFC 1035 section 4.2).
const dnsPort = 53

// Upstream is who is asked for names of others.
type Upstream struct {
	System bool           // the servers of resolv.conf; Addr is then not valid
	Addr   netip.AddrPort // with a port
}

// String is the upstream as it can be written.
func (u Upstream) String() string {
	if u.System {
		return "system"
	}
	return u.Addr.String()
}

// UnmarshalText implements encoding.TextUnmarshaler: "system", an address, or an address
// and a port ("192.0.2.1:53", "[2001:db8::1]:53").
func (u *Upstream) UnmarshalText(text []byte) error {
	s := string(text)
	if s == "system" {
		*u = Upstream{System: true}
		return nil
	}
	bare := s
	if strings.HasPrefix(s, "[") && strings.HasSuffix(s, "]") {
		bare = s[1 : len(s)-1]
	}
	addr, err := netip.ParseAddr(bare)
	at := netip.AddrPortFrom(addr, dnsPort)
	if err != nil {
		if at, err = netip.ParseAddrPort(s); err != nil {
			return fmt.Errorf(`%q: want "system", an IP address, or an IP address and a port`, s)
		}
	}
	switch {
	case at.Port() == 0:
		return fmt.Errorf("%q: nobody listens on port 0", s)
	case at.Addr().IsUnspecified() || at.Addr().IsMulticast():
		return fmt.Errorf("%q is no single host's address", s)
	}
	*u = Upstream{Addr: netip.AddrPortFrom(at.Addr().Unmap(), at.Port())}
	return nil
}

func (v *validator) upstreams() {
	if len(v.cfg.Upstreams) == 0 {
		v.errorf("upstreams", `empty: want at least one; "system" stands for those of resolv.conf`)
	}
	for i, u := range v.cfg.Upstreams {
		for j, own := range v.cfg.Listen.DNS {
			if at, err := netip.ParseAddrPort(own); err == nil && u.Addr == at {
				v.errorf(fmt.Sprintf("upstreams[%d]", i), "%s is this server itself (listen.dns[%d])", u, j)
			}
		}
	}
}

func (v *validator) listen() {
	l := v.cfg.Listen
	if len(l.DNS) == 0 {
		v.errorf("listen.dns", "empty: want at least one address")
	}
	for i, address := range l.DNS {
		path := fmt.Sprintf("listen.dns[%d]", i)
		v.listenAddress(path, address)
		for j := range i {
			if l.DNS[j] == address {
				v.errorf(path, "%s is given twice, before in listen.dns[%d]", address, j)
			}
		}
		if address == l.Admin && !strings.HasSuffix(address, ":0") {
			v.errorf("listen.admin", "%s is taken by DNS over TCP (%s)", address, path)
		}
	}
	if l.Admin != "" {
		v.listenAddress("listen.admin", l.Admin)
	}
	v.within("listen.workers", l.Workers, mostWorkers)
	v.within("listen.batch", l.Batch, mostBatch)
}

const (
	// mostWorkers: each one has a thread and a megabyte of the system's memory.
	mostWorkers = 256
	// mostBatch: each query of a batch has 64 KiB of addresses, and the first one waits for the last.
	mostBatch = 256
)

func (v *validator) within(path string, n, most int) {
	if n < 0 || n > most {
		v.errorf(path, "%d: want a number from 0 to %d", n, most)
	}
}

// listenAddress takes an IP address and a port, or a port alone for all addresses. Port 0
// lets the system choose.
func (v *validator) listenAddress(path, address string) {
	if port, ok := strings.CutPrefix(address, ":"); ok {
		if _, err := strconv.ParseUint(port, 10, 16); err != nil {
			v.errorf(path, "%q: want a port from 0 to 65535", address)
		}
		return
	}
	at, err := netip.ParseAddrPort(address)
	switch {
	case err != nil:
		v.errorf(path, `%q: want an IP address and a port ("127.0.0.1:53", "[::1]:53") or a port alone (":53")`, address)
	case at.Addr().IsMulticast():
		v.errorf(path, "%q is no address of this host", address)
	}
}
