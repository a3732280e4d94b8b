package kubernetes

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshdns/meshdns/sources"
)

func testConverter() *converter { return &converter{equivalence: "meshdns.io/equivalent-to"} }

func addrs(texts ...string) (list []netip.Addr) {
	for _, t := range texts {
		list = append(list, netip.MustParseAddr(t))
	}
	return list
}

func TestConvertService(t *testing.T) {
	created := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	spec := func(change func(*corev1.ServiceSpec)) *corev1.Service {
		s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "api"}}
		change(&s.Spec)
		return s
	}
	tests := []struct {
		name string
		in   *corev1.Service
		want sources.ServiceFields
	}{
		{"cluster IP", spec(func(s *corev1.ServiceSpec) { s.ClusterIP, s.ClusterIPs = "10.0.0.1", []string{"10.0.0.1"} }),
			sources.ServiceFields{ClusterIPs: addrs("10.0.0.1")}},
		{"cluster IP of an old dump", spec(func(s *corev1.ServiceSpec) { s.ClusterIP = "10.0.0.1" }),
			sources.ServiceFields{ClusterIPs: addrs("10.0.0.1")}},
		{"C83: two cluster IPs and one port", spec(func(s *corev1.ServiceSpec) {
			s.ClusterIPs = []string{"10.0.0.1", "2001:db8::1"}
			s.Ports = []corev1.ServicePort{{Port: 80}}
		}), sources.ServiceFields{ClusterIPs: addrs("10.0.0.1", "2001:db8::1"), Ports: []sources.Port{{Number: 80}}}},
		{"C83: two cluster IPs and five ports", spec(func(s *corev1.ServiceSpec) {
			s.ClusterIPs = []string{"10.0.0.1", "2001:db8::1"}
			for i := range 5 {
				s.Ports = append(s.Ports, corev1.ServicePort{Name: fmt.Sprint("p", i), Port: int32(i + 1)})
			}
		}), sources.ServiceFields{ClusterIPs: addrs("10.0.0.1", "2001:db8::1"), Ports: []sources.Port{
			{Name: "p0", Number: 1}, {Name: "p1", Number: 2}, {Name: "p2", Number: 3}, {Name: "p3", Number: 4}, {Name: "p4", Number: 5}}}},
		{"C83: no duplicates, no blanks", spec(func(s *corev1.ServiceSpec) {
			s.ClusterIPs = []string{"10.0.0.1", "", "10.0.0.1", "::ffff:10.0.0.1", "rubbish"}
		}), sources.ServiceFields{ClusterIPs: addrs("10.0.0.1")}},
		{"C76: headless", spec(func(s *corev1.ServiceSpec) { s.ClusterIP, s.ClusterIPs = "None", []string{"None"} }),
			sources.ServiceFields{Type: sources.Headless}},
		{"C76: headless by the list", spec(func(s *corev1.ServiceSpec) { s.ClusterIPs = []string{"None"} }),
			sources.ServiceFields{Type: sources.Headless}},
		{"C76: cluster IP pending", spec(func(s *corev1.ServiceSpec) {}), sources.ServiceFields{}},
		{"C76: load balancer without IP", spec(func(s *corev1.ServiceSpec) { s.Type = corev1.ServiceTypeLoadBalancer }),
			sources.ServiceFields{}},
		{"external name", spec(func(s *corev1.ServiceSpec) {
			s.Type, s.ExternalName = corev1.ServiceTypeExternalName, "db.Example.com"
		}), sources.ServiceFields{Type: sources.ExternalName, ExternalName: "db.Example.com"}},
		{"an external name only counts for its type", spec(func(s *corev1.ServiceSpec) { s.ExternalName = "db.example.com" }),
			sources.ServiceFields{}},
		{"ports are ordered, defaults filled, bad ones left out", spec(func(s *corev1.ServiceSpec) {
			s.Ports = []corev1.ServicePort{
				{Name: "Web", Port: 80}, {Name: "dns", Port: 53, Protocol: "UDP"}, {Name: "dns", Port: 53, Protocol: "TCP"},
				{Name: "bad", Port: 0}, {Name: "bad", Port: 65536}, {Name: "bad", Port: 1, Protocol: "ICMP"},
			}
		}), sources.ServiceFields{Ports: []sources.Port{
			{Name: "dns", Protocol: sources.TCP, Number: 53}, {Name: "dns", Protocol: sources.UDP, Number: 53}, {Name: "web", Number: 80}}}},
		{"creation time is UTC", &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "api",
			CreationTimestamp: metav1.NewTime(created.In(time.FixedZone("x", 3600)))}}, sources.ServiceFields{Created: created}},
		{"equivalence label before annotation", &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "api",
			Labels:      map[string]string{"meshdns.io/equivalent-to": "a.b"},
			Annotations: map[string]string{"meshdns.io/equivalent-to": "c.d"}}}, sources.ServiceFields{EquivalentTo: "a.b"}},
		{"equivalence annotation", &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "api",
			Annotations: map[string]string{"meshdns.io/equivalent-to": "c.d"}}}, sources.ServiceFields{EquivalentTo: "c.d"}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			o := testConverter().convert(tc.in)
			require.False(t, o.bad, o.complaint)
			assert.Equal(t, key{"shop", "api"}, o.key)
			assert.Equal(t, tc.want, o.service.Fields())
		})
	}
}

func TestConvertServiceWithoutEquivalenceLabel(t *testing.T) {
	c := &converter{}
	s := newService("api", func(s *corev1.Service) { s.Labels = map[string]string{"": "x", "meshdns.io/equivalent-to": "a.b"} })
	assert.Empty(t, c.convert(s).service.EquivalentTo())
}

func endpoint(change func(*discoveryv1.Endpoint)) discoveryv1.Endpoint {
	e := discoveryv1.Endpoint{Addresses: []string{"192.0.2.1"}}
	change(&e)
	return e
}

func TestConvertHostname(t *testing.T) {
	long := strings.Repeat("x", 64)
	pod := func(name string) *corev1.ObjectReference { return &corev1.ObjectReference{Kind: "Pod", Name: name} }
	tests := []struct {
		name      string
		hostname  *string
		ref       *corev1.ObjectReference
		want      string
		complains bool
	}{
		{"none", nil, nil, "", false},
		{"its own", ptr("web-0"), pod("web-7f"), "web-0", false},
		{"lower-cased", ptr("Web-0"), nil, "web-0", false},
		{"empty", ptr(""), pod("web-7f"), "web-7f", false},
		{"the pod's", nil, pod("web-7f"), "web-7f", false},
		{"not a pod's", nil, &corev1.ObjectReference{Kind: "Node", Name: "n1"}, "", false},
		{"kind left out", nil, &corev1.ObjectReference{Name: "web-7f"}, "web-7f", false},
		{"pod without a name", nil, pod(""), "", false},
		{"C56: dotted", ptr("test.host"), nil, "", true},
		{"C56: dotted, with a pod", ptr("test.host"), pod("web-7f"), "web-7f", true},
		{"C55: overlong", ptr(long), nil, "", true},
		{"C55: overlong pod", nil, pod(long), "", true},
		{"dotted pod", nil, pod("web.7f"), "", true},
		{"not a label", ptr("-x_"), nil, "", true},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			s := newSlice("api", "api-1", "192.0.2.2", "192.0.2.3") // two normal endpoints beside
			s.Endpoints = append(s.Endpoints, endpoint(func(e *discoveryv1.Endpoint) { e.Hostname, e.TargetRef = tc.hostname, tc.ref }))
			o := testConverter().convert(s)
			require.False(t, o.bad)
			endpoints := o.slice.Fields().Endpoints
			require.Len(t, endpoints, 3, "the address stays")
			assert.Equal(t, tc.want, endpoints[0].Hostname)
			assert.Equal(t, tc.complains, o.complaint != "", o.complaint)
		})
	}
}

// CASES C88–C92: the truth table of the conditions.
func TestConvertConditions(t *testing.T) {
	yes, no := ptr(true), ptr(false)
	tests := []struct {
		ready, serving, terminating *bool
		want                        sources.EndpointState
	}{
		{nil, nil, nil, sources.Ready},          // C88
		{nil, no, yes, sources.Ready},           //
		{yes, nil, nil, sources.Ready},          //
		{yes, no, nil, sources.Ready},           // C89: publishes addresses that are not ready
		{yes, no, yes, sources.Ready},           //
		{no, yes, yes, sources.Serving},         //
		{no, yes, no, sources.NotReady},         //
		{no, yes, nil, sources.NotReady},        //
		{no, no, yes, sources.NotReady},         //
		{no, no, no, sources.NotReady},          //
		{no, nil, nil, sources.NotReady},        //
		{no, nil, yes, sources.NotReady},        //
		{yes, yes, yes, sources.Ready},          //
		{nil, nil, yes, sources.Ready},          //
		{ptr(false), yes, no, sources.NotReady}, //
	}
	for _, tc := range tests {
		s := newSlice("api", "api-1")
		s.Endpoints = []discoveryv1.Endpoint{endpoint(func(e *discoveryv1.Endpoint) {
			e.Conditions = discoveryv1.EndpointConditions{Ready: tc.ready, Serving: tc.serving, Terminating: tc.terminating}
		})}
		o := testConverter().convert(s)
		assert.Equal(t, tc.want, o.slice.Fields().Endpoints[0].State, "%v %v %v", deref(tc.ready), deref(tc.serving), deref(tc.terminating))
	}
}

func TestConvertAddresses(t *testing.T) {
	tests := []struct {
		name      string
		family    discoveryv1.AddressType
		addresses []string
		want      []string
		complains bool
	}{
		{"IPv4", "IPv4", []string{"192.0.2.2", "192.0.2.1"}, []string{"192.0.2.1", "192.0.2.2"}, false},
		{"IPv6", "IPv6", []string{"2001:DB8::1"}, []string{"2001:db8::1"}, false},
		{"C82: families come from the slice", "IPv4", []string{"192.0.2.1", "2001:db8::1"}, []string{"192.0.2.1"}, true},
		{"mapped", "IPv6", []string{"::ffff:192.0.2.1"}, nil, true},
		{"mapped in IPv4", "IPv4", []string{"::ffff:192.0.2.1"}, []string{"192.0.2.1"}, false},
		{"zone", "IPv6", []string{"fe80::1%eth0"}, nil, true},
		{"rubbish", "IPv4", []string{"", "x", "192.0.2.256", "192.0.2.1"}, []string{"192.0.2.1"}, true},
		{"unspecified and multicast", "IPv4", []string{"0.0.0.0", "224.0.0.1"}, nil, true},
		{"the same twice", "IPv4", []string{"192.0.2.1", "192.0.2.1"}, []string{"192.0.2.1"}, false},
		{"no type", "", []string{"192.0.2.1", "2001:db8::1"}, []string{"192.0.2.1", "2001:db8::1"}, false},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			s := newSlice("api", "api-1")
			s.AddressType = tc.family
			s.Endpoints = []discoveryv1.Endpoint{{Addresses: tc.addresses}} // several addresses are several endpoints
			o := testConverter().convert(s)
			var got []string
			for _, e := range o.slice.Fields().Endpoints {
				got = append(got, e.Address.String())
			}
			assert.Equal(t, tc.want, got)
			assert.Equal(t, tc.complains, o.complaint != "", o.complaint)
		})
	}
}

func TestConvertPorts(t *testing.T) {
	s := newSlice("api", "api-1")
	s.Ports = []discoveryv1.EndpointPort{
		{}, // C64, C73: all ports
		{Name: ptr("dns"), Port: ptr(int32(53)), Protocol: ptr(corev1.ProtocolUDP)}, // C65
		{Name: ptr("dns"), Port: ptr(int32(53)), Protocol: ptr(corev1.ProtocolTCP)},
		{Name: ptr("Big"), Port: ptr(int32(65536)), Protocol: ptr(corev1.ProtocolSCTP)},
		{Name: ptr("odd"), Port: ptr(int32(1)), Protocol: ptr(corev1.Protocol("ICMP"))},
	}
	o := testConverter().convert(s)
	assert.Equal(t, []sources.Port{
		{},
		{Name: "big", Protocol: sources.SCTP},
		{Name: "dns", Protocol: sources.TCP, Number: 53},
		{Name: "dns", Protocol: sources.UDP, Number: 53},
	}, o.slice.Ports().List())
	assert.NotEmpty(t, o.complaint)
}

// What no answer depends on is not stored: a move to another node changes nothing here.
func TestConvertWholeEndpoint(t *testing.T) {
	s := newSlice("api", "api-1")
	s.Endpoints = []discoveryv1.Endpoint{endpoint(func(e *discoveryv1.Endpoint) {
		e.Hostname, e.Zone, e.NodeName = ptr("h"), ptr("z1"), ptr("n1")
	})}
	o := testConverter().convert(s)
	assert.Equal(t, "api", o.owner)
	assert.Equal(t, sources.SliceFields{
		Name:      "api-1",
		Ports:     []sources.Port{{Name: "http", Number: 8080}},
		Endpoints: []sources.Endpoint{{Address: netip.MustParseAddr("192.0.2.1"), Hostname: "h"}},
	}, o.slice.Fields())
}

// CASES C59: both endpoints of one hostname stay.
func TestConvertKeepsEndpointsOfOneHostname(t *testing.T) {
	s := newSlice("api", "api-1")
	for _, a := range []string{"192.0.2.1", "192.0.2.2"} {
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{a}, Hostname: ptr("h")})
	}
	o := testConverter().convert(s)
	endpoints := o.slice.Fields().Endpoints
	require.Len(t, endpoints, 2)
	assert.Equal(t, "h", endpoints[0].Hostname)
	assert.Equal(t, "h", endpoints[1].Hostname)
}

func TestConvertLeavesOut(t *testing.T) {
	tests := []struct {
		name      string
		in        any
		bad       bool
		complains bool
	}{
		{"slice of no service", &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "x"}}, false, false},
		{"C80: FQDN slice", &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "x",
			Labels: map[string]string{discoveryv1.LabelServiceName: "api"}}, AddressType: discoveryv1.AddressTypeFQDN,
			Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"db.example.com"}}}}, false, true},
		{"C101: empty slice", &discoveryv1.EndpointSlice{}, true, true},
		{"C101: empty service", &corev1.Service{}, true, true},
		{"C101: nil slice", (*discoveryv1.EndpointSlice)(nil), true, true},
		{"C101: nil service", (*corev1.Service)(nil), true, true},
		{"C101: nil", nil, true, true},
		{"C101: another type", &corev1.Pod{}, true, true},
		{"name that is no label", newService("Not_A_Label"), true, true},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			o := testConverter().convert(tc.in)
			require.NotNil(t, o)
			assert.Empty(t, o.slice)
			assert.Empty(t, o.service)
			assert.Equal(t, tc.bad, o.bad)
			assert.Equal(t, tc.complains, o.complaint != "")
		})
	}
}

// CASES C101: a slice where everything that can be nil is nil is an empty slice.
func TestConvertNilEverything(t *testing.T) {
	s := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "shop", Name: "x", Labels: map[string]string{discoveryv1.LabelServiceName: "api"}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{}},
		Endpoints:   []discoveryv1.Endpoint{{}, {Addresses: []string{"192.0.2.1"}}},
	}
	o := testConverter().convert(s)
	assert.Equal(t, sources.SliceFields{Name: "x", Ports: []sources.Port{{}},
		Endpoints: []sources.Endpoint{{Address: netip.MustParseAddr("192.0.2.1")}}}, o.slice.Fields())
	assert.Empty(t, o.complaint)
}
