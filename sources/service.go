package sources

import (
	"net/netip"
	"time"
)

// ServiceType is the kind of a Service as far as DNS sees it.
type ServiceType uint8

const (
	// ClusterIP services have a virtual IP, or will have one: only ClusterIP "None"
	// makes a service headless (CASES C76).
	ClusterIP ServiceType = iota
	// Headless services have clusterIP None.
	Headless
	// ExternalName services are an alias.
	ExternalName
)

// Service is a Kubernetes Service with all of its EndpointSlices. A slice without a
// Service is not pushed at all.
type Service struct {
	Type         ServiceType
	Created      time.Time    // metadata.creationTimestamp, UTC
	ClusterIPs   []netip.Addr // valid ones only; empty while none is assigned
	ExternalName string       // of ExternalName services, as written there
	Ports        []Port       // spec.ports: name, protocol, service port
	EquivalentTo string       // value of the equivalence label, "" without one
	Slices       []*Slice     // ordered by Slice.Name
}

// ValueKind implements Value.
func (*Service) ValueKind() Kind { return KindService }

// Slice is a group of endpoints that have the same ports: an EndpointSlice, or all
// members of a backend that share ports. Ports and endpoints are joined inside of a
// slice only (CASES C73).
type Slice struct {
	Name      string
	Ports     []Port
	Endpoints []Endpoint
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

// Endpoint is one address. An EndpointSlice endpoint with several addresses is several
// Endpoints.
type Endpoint struct {
	Address netip.Addr // IPv4 or IPv6 without zone, never IPv4 mapped into IPv6
	// Hostname is the endpoint's host label, lower-case and valid by names.IsHostLabel:
	// the hostname field, else the name of the pod behind it where that is one label,
	// else "" (the resolver then takes the dashed address).
	Hostname string
	Zone     string // topology zone, "" when not known
	Node     string // node name, "" when not known
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
