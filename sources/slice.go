package sources

import "net/netip"

// Slice is a group of endpoints that have the same ports, packed (pack.go): an
// EndpointSlice, or all members of a backend that share ports. Ports and endpoints are
// joined inside of a slice only (CASES C73). "" is a slice without anything.
type Slice string

// SliceFields is what a Slice is made of.
type SliceFields struct {
	Name      string
	Ports     []Port
	Endpoints []Endpoint
}

// Pack is the Slice of f.
func (f *SliceFields) Pack() Slice {
	return Slice(packed(appendSlice(make([]byte, 0, sliceSize(f)), f)))
}

// Fields are copies of what s is made of, to change and Pack again.
func (s Slice) Fields() SliceFields {
	f := SliceFields{Name: s.Name(), Ports: s.Ports().List()}
	if n := s.Len(); n > 0 {
		f.Endpoints = make([]Endpoint, 0, n)
	}
	for list := s.Endpoints(); list.Next(); {
		f.Endpoints = append(f.Endpoints, list.Endpoint)
	}
	return f
}

// Name is the EndpointSlice's name.
func (s Slice) Name() string {
	if s == "" {
		return ""
	}
	name, _ := cutText(string(s))
	return name
}

// Ports are the ports of the slice's endpoints.
func (s Slice) Ports() Ports {
	ports, _ := s.cutPorts()
	return Ports(ports)
}

func (s Slice) cutPorts() (ports, rest string) {
	if s == "" {
		return "", "\x00"
	}
	_, rest = cutText(string(s))
	return cutText(rest)
}

// Len is the number of endpoints.
func (s Slice) Len() int {
	_, rest := s.cutPorts()
	n, _ := cutUvarint(rest)
	return n
}

// Endpoints goes over the endpoints, in the order in which they were packed:
//
//	for list := s.Endpoints(); list.Next(); {
//		use(&list.Endpoint)
//	}
func (s Slice) Endpoints() EndpointList {
	_, rest := s.cutPorts()
	_, rest = cutUvarint(rest)
	return EndpointList{rest: rest}
}

// EndpointList goes over endpoints. It is a value: a copy of it starts where it stands.
type EndpointList struct {
	Endpoint // its texts are parts of the Slice
	rest     string
}

// Next takes the next Endpoint; false at the end.
func (l *EndpointList) Next() bool {
	if l.rest == "" {
		return false
	}
	head := l.rest[0]
	l.State = EndpointState(head & stateMask)
	l.Address, l.rest = cutAddress(l.rest[1:], head>>familyShift)
	l.Hostname, l.rest = cutText(l.rest)
	return true
}

// Protocol is a transport protocol with an SRV label.
type Protocol uint8

const (
	TCP Protocol = iota
	UDP
	SCTP
)

// String is the protocol as Kubernetes writes it.
func (p Protocol) String() string { return [...]string{"TCP", "UDP", "SCTP"}[p] }

// Label is the protocol's SRV label.
func (p Protocol) Label() string { return [...]string{"_tcp", "_udp", "_sctp"}[p] }

// Port is a named number. Name may be empty; Number 0 says "not known" (a slice port
// without a number means all ports) and is never put into a record.
type Port struct {
	Name     string
	Protocol Protocol
	Number   uint16
}

// Ports is a list of ports, packed (pack.go); "" is an empty one.
type Ports string

// PackPorts is the Ports of a list.
func PackPorts(ports []Port) Ports {
	if len(ports) == 0 {
		return ""
	}
	return Ports(packed(appendPorts(make([]byte, 0, portsSize(ports)), ports)))
}

// All goes over the ports:
//
//	for list := ports.All(); list.Next(); {
//		use(list.Port)
//	}
func (p Ports) All() PortList { return PortList{rest: string(p)} }

// Append appends the ports to out; their names are parts of p.
func (p Ports) Append(out []Port) []Port {
	for list := p.All(); list.Next(); {
		out = append(out, list.Port)
	}
	return out
}

// List are the ports; nil for none.
func (p Ports) List() []Port { return p.Append(nil) }

// PortList goes over ports. It is a value: a copy of it starts where it stands.
type PortList struct {
	Port
	rest string
}

// Next takes the next Port; false at the end.
func (l *PortList) Next() bool {
	if l.rest == "" {
		return false
	}
	l.Protocol = Protocol(l.rest[0])
	l.Number = uint16(l.rest[1])<<8 | uint16(l.rest[2])
	l.Name, l.rest = cutText(l.rest[portHead:])
	return true
}

// Endpoint is one address. An EndpointSlice endpoint with several addresses is several
// Endpoints.
type Endpoint struct {
	Address netip.Addr // IPv4 or IPv6 without zone, never IPv4 mapped into IPv6
	// Hostname is the endpoint's host label, lower-case and valid by names.IsHostLabel:
	// the hostname field, else the name of the pod behind it where that is one label,
	// else "" (the resolver then takes the dashed address).
	Hostname string
	State    EndpointState
}

// EndpointState folds the three conditions of an EndpointSlice endpoint.
type EndpointState uint8

const (
	// Ready: the ready condition is true or absent.
	Ready EndpointState = iota
	// Serving: not ready, but serving while terminating.
	Serving
	// NotReady: neither.
	NotReady
)

// String is the state in the API's words.
func (s EndpointState) String() string {
	return [...]string{"ready", "terminating", "notReady"}[s]
}
