package sources

import (
	"encoding/binary"
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

// Service is a Kubernetes Service with all of its EndpointSlices, packed (pack.go); "" is
// no service. A slice without a Service is not pushed at all.
type Service string

// ServiceFields is what a Service is made of.
type ServiceFields struct {
	Type         ServiceType
	Created      time.Time    // metadata.creationTimestamp, UTC, whole seconds
	ClusterIPs   []netip.Addr // valid ones only; empty while none is assigned
	ExternalName string       // of ExternalName services, as written there
	Ports        []Port       // spec.ports: name, protocol, service port
	EquivalentTo string       // value of the equivalence label, "" without one
	Slices       []Slice      // ordered by Slice.Name
}

// ValueKind implements Value.
func (Service) ValueKind() Kind { return KindService }

// Pack is the Service of f. Of Created it keeps whole seconds.
func (f *ServiceFields) Pack() Service {
	own := SliceFields{Ports: f.Ports}
	if len(f.ClusterIPs) > 0 {
		own.Endpoints = make([]Endpoint, len(f.ClusterIPs))
		for i, a := range f.ClusterIPs {
			own.Endpoints[i].Address = a
		}
	}
	size := sliceSize(&own)
	b := make([]byte, 0, 1+varintSize(f.Created.Unix())+textSize(len(f.ExternalName))+
		textSize(len(f.EquivalentTo))+textSize(size)+slicesSize(f.Slices))
	b = append(b, byte(f.Type))
	b = binary.AppendVarint(b, f.Created.Unix())
	b = appendText(b, f.ExternalName)
	b = appendText(b, f.EquivalentTo)
	b = binary.AppendUvarint(b, uint64(size))
	b = appendSlice(b, &own)
	return Service(packed(appendSlices(b, f.Slices)))
}

// With is s with these slices, ordered by name, in place of its own.
func (s Service) With(slices []Slice) Service {
	bare := s.Bare()
	b := make([]byte, 0, len(bare)+slicesSize(slices))
	b = appendSlices(append(b, bare...), slices)
	return Service(packed(b))
}

func slicesSize(slices []Slice) (size int) {
	for _, s := range slices {
		size += textSize(len(s))
	}
	return size
}

func appendSlices(b []byte, slices []Slice) []byte {
	for _, s := range slices {
		b = appendText(b, string(s))
	}
	return b
}

// Fields are copies of what s is made of, to change and Pack again; the zero value of "".
func (s Service) Fields() ServiceFields {
	if s == "" {
		return ServiceFields{}
	}
	f := ServiceFields{
		Type: s.Type(), Created: s.Created(), ExternalName: s.ExternalName(), EquivalentTo: s.EquivalentTo(),
		Ports: s.Ports().List(), Slices: s.AppendSlices(nil),
	}
	for list := s.Own().Endpoints(); list.Next(); {
		f.ClusterIPs = append(f.ClusterIPs, list.Address)
	}
	return f
}

// Type is the service's type.
func (s Service) Type() ServiceType { return ServiceType(s[0]) }

// Created is metadata.creationTimestamp, UTC.
func (s Service) Created() time.Time {
	seconds, _ := cutVarint(string(s[1:]))
	return time.Unix(seconds, 0).UTC()
}

// afterCreated is s from the external name on.
func (s Service) afterCreated() string {
	i := 1
	for s[i] >= 0x80 {
		i++
	}
	return string(s[i+1:])
}

// ExternalName is the alias of ExternalName services, as written there.
func (s Service) ExternalName() string {
	text, _ := cutText(s.afterCreated())
	return text
}

// EquivalentTo is the value of the equivalence label, "" without one.
func (s Service) EquivalentTo() string {
	_, rest := cutText(s.afterCreated())
	text, _ := cutText(rest)
	return text
}

// Own are the service's own addresses, its cluster IPs, under its own ports: a Slice
// without a name.
func (s Service) Own() Slice {
	own, _ := s.cutOwn()
	return Slice(own)
}

func (s Service) cutOwn() (own, slices string) {
	_, rest := cutText(s.afterCreated())
	_, rest = cutText(rest)
	return cutText(rest)
}

// Ports is spec.ports: name, protocol, service port.
func (s Service) Ports() Ports { return s.Own().Ports() }

// Bare is s without its slices: two services with equal ones differ in slices only.
func (s Service) Bare() Service {
	_, slices := s.cutOwn()
	return s[:len(s)-len(slices)]
}

// Slices goes over the service's slices, ordered by Slice.Name:
//
//	for list := s.Slices(); list.Next(); {
//		use(list.Slice)
//	}
func (s Service) Slices() SliceList {
	if s == "" {
		return SliceList{}
	}
	_, slices := s.cutOwn()
	return SliceList{rest: slices}
}

// AppendSlices appends the service's slices to out.
func (s Service) AppendSlices(out []Slice) []Slice {
	for list := s.Slices(); list.Next(); {
		out = append(out, list.Slice)
	}
	return out
}

// SliceList goes over slices. It is a value: a copy of it starts where it stands.
type SliceList struct {
	Slice
	rest string
}

// Next takes the next Slice; false at the end.
func (l *SliceList) Next() bool {
	if l.rest == "" {
		return false
	}
	var slice string
	slice, l.rest = cutText(l.rest)
	l.Slice = Slice(slice)
	return true
}
