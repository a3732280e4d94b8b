package kubernetes

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshdns/meshdns/names"
	"github.com/meshdns/meshdns/sources"
)

// converter turns API objects into objects. It is safe for concurrent use.
type converter struct {
	equivalence string // the label or annotation of sources.Service.EquivalentTo; "" for none
}

// convert is the object of an API object. It never panics and never fails: what cannot be
// understood is marked bad (CASES C101). An object that is converted already is returned
// as it is.
func (c *converter) convert(obj any) (o *object) {
	defer func() {
		if r := recover(); r != nil {
			o = badObject(obj, fmt.Sprintf("cannot be read: %v", r))
		}
	}()
	switch obj := obj.(type) {
	case *object:
		return obj
	case *corev1.Service:
		return c.service(obj)
	case *discoveryv1.EndpointSlice:
		return c.slice(obj)
	default:
		return badObject(obj, fmt.Sprintf("is a %T", obj))
	}
}

// badObject marks obj as one that could not be understood. A nil pointer has no key; it
// gets the empty one, which no object has.
func badObject(obj any, complaint string) (o *object) {
	o = &object{bad: true, complaint: complaint}
	if _, isSlice := obj.(*discoveryv1.EndpointSlice); isSlice {
		o.kind = kindSlice
	}
	defer func() { _ = recover() }() // of a typed nil
	if meta, ok := obj.(metav1.Object); ok {
		o.key = key{meta.GetNamespace(), meta.GetName()}
	}
	return o
}

// service converts a Service.
func (c *converter) service(s *corev1.Service) *object {
	o := &object{kind: kindService, key: key{s.Namespace, s.Name}, selects: len(s.Spec.Selector) > 0}
	if !names.IsHostLabel(s.Namespace) || !names.IsHostLabel(s.Name) {
		o.bad, o.complaint = true, "namespace or name is not a DNS label"
		return o
	}
	fields := sources.ServiceFields{
		Type:         serviceType(&s.Spec),
		Created:      s.CreationTimestamp.UTC(),
		ClusterIPs:   clusterIPs(&s.Spec),
		EquivalentTo: c.equivalentTo(s),
	}
	if fields.Type == sources.ExternalName {
		fields.ExternalName = s.Spec.ExternalName
	}
	fields.Ports, o.complaint = servicePorts(s.Spec.Ports)
	o.service = fields.Pack()
	return o
}

// serviceType tells the kinds apart. A service is headless only if it says so: one whose
// cluster IP is not assigned yet is not (CASES C76).
func serviceType(spec *corev1.ServiceSpec) sources.ServiceType {
	switch {
	case spec.Type == corev1.ServiceTypeExternalName:
		return sources.ExternalName
	case spec.ClusterIP == corev1.ClusterIPNone,
		spec.ClusterIP == "" && slices.Contains(spec.ClusterIPs, corev1.ClusterIPNone):
		return sources.Headless
	default:
		return sources.ClusterIP
	}
}

// clusterIPs are the valid ones, each once (CASES C83). clusterIPs supersedes clusterIP,
// which dumps of old servers have alone.
func clusterIPs(spec *corev1.ServiceSpec) []netip.Addr {
	texts := spec.ClusterIPs
	if len(texts) == 0 {
		texts = []string{spec.ClusterIP}
	}
	var addrs []netip.Addr
	for _, text := range texts {
		if addr, ok := parseAddress(text); ok && !slices.Contains(addrs, addr) {
			addrs = append(addrs, addr)
		}
	}
	return addrs
}

func (c *converter) equivalentTo(s *corev1.Service) string {
	if c.equivalence == "" {
		return ""
	}
	if value, ok := s.Labels[c.equivalence]; ok {
		return value
	}
	return s.Annotations[c.equivalence]
}

func servicePorts(in []corev1.ServicePort) (ports []sources.Port, complaint string) {
	for _, p := range in {
		protocol, ok := parseProtocol(string(p.Protocol))
		if !ok || p.Port < 1 || p.Port > 65535 {
			complaint = fmt.Sprintf("port %q, %d/%s, is left out", p.Name, p.Port, p.Protocol)
			continue
		}
		ports = append(ports, sources.Port{
			Name:     names.Lower(p.Name),
			Protocol: protocol,
			Number:   uint16(p.Port),
		})
	}
	return sortPorts(ports), complaint
}

// slice converts an EndpointSlice.
func (c *converter) slice(s *discoveryv1.EndpointSlice) *object {
	o := &object{kind: kindSlice, key: key{s.Namespace, s.Name}}
	o.fromEndpoints = s.Labels[discoveryv1.LabelManagedBy] == mirrorController
	if s.Namespace == "" || s.Name == "" {
		o.bad, o.complaint = true, "namespace or name is missing"
		return o
	}
	if o.owner = s.Labels[discoveryv1.LabelServiceName]; o.owner == "" {
		return o // of no service; that is nobody's mistake
	}
	family, ok := parseFamily(s.AddressType)
	if !ok { // DNS_RULES 20, CASES C80
		o.complaint = fmt.Sprintf("address type %q is not served", s.AddressType)
		return o
	}
	in := &sliceInput{family: family}
	fields := sources.SliceFields{Name: s.Name, Ports: in.ports(s.Ports), Endpoints: in.endpoints(s.Endpoints)}
	o.slice, o.complaint = fields.Pack(), in.complaint
	o.key.name = o.slice.Name() // nothing of the API object is kept alive
	return o
}

// sliceInput is an EndpointSlice while it is converted.
type sliceInput struct {
	family    func(netip.Addr) bool
	complaint string
}

func (in *sliceInput) complain(format string, args ...any) {
	in.complaint = fmt.Sprintf(format, args...)
}

// ports converts the ports. No name is the name "", no number means all ports and is kept
// as 0 (CASES C64, C73); so is a number that is none.
func (in *sliceInput) ports(list []discoveryv1.EndpointPort) []sources.Port {
	ports := make([]sources.Port, 0, len(list))
	for _, p := range list {
		protocol, ok := parseProtocol(string(deref(p.Protocol)))
		if !ok {
			in.complain("port %q of protocol %q is left out", deref(p.Name), *p.Protocol)
			continue
		}
		number := deref(p.Port)
		if number < 0 || number > 65535 {
			in.complain("port %q has no valid number: %d", deref(p.Name), number)
			number = 0
		}
		ports = append(ports, sources.Port{
			Name:     names.Lower(deref(p.Name)),
			Protocol: protocol,
			Number:   uint16(number),
		})
	}
	return sortPorts(ports)
}

// endpoints converts the endpoints, each address its own, in an order of their own, so
// that a slice that lists the same in another order is the same.
func (in *sliceInput) endpoints(list []discoveryv1.Endpoint) []sources.Endpoint {
	count := 0
	for i := range list {
		count += len(list[i].Addresses)
	}
	endpoints := make([]sources.Endpoint, 0, count)
	for i := range list {
		endpoints = in.endpoint(endpoints, &list[i])
	}
	slices.SortFunc(endpoints, compareEndpoints)
	return slices.Compact(endpoints)
}

func (in *sliceInput) endpoint(endpoints []sources.Endpoint, e *discoveryv1.Endpoint) []sources.Endpoint {
	out := sources.Endpoint{
		Hostname: in.hostname(e),
		State:    state(&e.Conditions),
	}
	for _, text := range e.Addresses {
		addr, ok := parseAddress(text)
		if !ok || !in.family(addr) {
			in.complain("address %q is left out", text)
			continue
		}
		out.Address = addr
		endpoints = append(endpoints, out)
	}
	return endpoints
}

// hostname is the endpoint's host label: its own, else that of the pod behind it where
// that is one label, else "" (DNS_RULES 12 and 20, CASES C55 and C56).
func (in *sliceInput) hostname(e *discoveryv1.Endpoint) string {
	if own := deref(e.Hostname); own != "" {
		if label := names.Lower(own); names.IsHostLabel(label) {
			return label
		}
		in.complain("hostname %q is not a DNS label", own)
	}
	ref := e.TargetRef
	if ref == nil || ref.Name == "" || ref.Kind != "Pod" && ref.Kind != "" {
		return ""
	}
	if label := names.Lower(ref.Name); names.IsHostLabel(label) {
		return label
	}
	in.complain("pod name %q is not a DNS label", ref.Name)
	return ""
}

// state folds the conditions as their API documentation has it: ready counts as true when
// absent (CASES C88), and the ready flag alone decides for services that publish addresses
// which are not ready (CASES C89).
func state(c *discoveryv1.EndpointConditions) sources.EndpointState {
	switch {
	case c.Ready == nil || *c.Ready:
		return sources.Ready
	case deref(c.Serving) && deref(c.Terminating):
		return sources.Serving
	default:
		return sources.NotReady
	}
}

// parseFamily says which addresses a slice may hold (CASES C82). Hand-written slices may
// leave their type out.
func parseFamily(t discoveryv1.AddressType) (family func(netip.Addr) bool, ok bool) {
	switch t {
	case discoveryv1.AddressTypeIPv4:
		return netip.Addr.Is4, true
	case discoveryv1.AddressTypeIPv6:
		return netip.Addr.Is6, true
	case "":
		return netip.Addr.IsValid, true
	default:
		return nil, false
	}
}

// parseAddress reads an address that a record may carry.
func parseAddress(text string) (netip.Addr, bool) {
	addr, err := netip.ParseAddr(text)
	if err != nil || addr.Zone() != "" {
		return netip.Addr{}, false
	}
	addr = addr.Unmap()
	return addr, !addr.IsUnspecified() && !addr.IsMulticast()
}

func parseProtocol(text string) (sources.Protocol, bool) {
	switch strings.ToUpper(text) {
	case "", "TCP": // TCP is the API's default
		return sources.TCP, true
	case "UDP":
		return sources.UDP, true
	case "SCTP":
		return sources.SCTP, true
	default:
		return 0, false
	}
}

func sortPorts(ports []sources.Port) []sources.Port {
	slices.SortFunc(ports, func(a, b sources.Port) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.Number, b.Number))
	})
	return slices.Compact(ports)
}

func compareEndpoints(a, b sources.Endpoint) int {
	return cmp.Or(a.Address.Compare(b.Address), cmp.Compare(a.Hostname, b.Hostname), cmp.Compare(a.State, b.State))
}

// deref is *p, or the zero value where p is nil.
func deref[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}
