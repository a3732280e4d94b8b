package kubernetes

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// leaderAnnotation marks Endpoints that old clients elect a leader with (client-go's
// resourcelock.LeaderElectionRecordAnnotationKey).
const leaderAnnotation = "control-plane.alpha.kubernetes.io/leader"

// mirrorController is the label value of slices that a cluster mirrored itself
// (KEP-0752, "EndpointSlice mirroring").
const mirrorController = "endpointslicemirroring-controller.k8s.io"

// endpoints is what counts of a core/v1 Endpoints object. The API's own types are
// deprecated.
type endpoints struct {
	metav1.ObjectMeta `json:"metadata"`
	Subsets           []subset `json:"subsets"`
}

// subset is a group of addresses that have the same ports.
type subset struct {
	Addresses         []address    `json:"addresses"`
	NotReadyAddresses []address    `json:"notReadyAddresses"`
	Ports             []subsetPort `json:"ports"`
}

type address struct {
	IP        string                  `json:"ip"`
	Hostname  *string                 `json:"hostname"`
	NodeName  *string                 `json:"nodeName"`
	TargetRef *corev1.ObjectReference `json:"targetRef"`
}

type subsetPort struct {
	Name     string          `json:"name"`
	Port     int32           `json:"port"`
	Protocol corev1.Protocol `json:"protocol"`
}

// mirrored is what is kept of Endpoints.
type mirrored struct {
	key    key
	slices []*object // none of Endpoints that are never mirrored
	filled bool      // there are subsets
}

// mirror converts Endpoints to what Kubernetes makes of them: nothing if they are marked
// against it or are the record of an election. The Service must exist, too, and have no
// selector.
func mirror(e *endpoints, c *converter) *mirrored {
	m := &mirrored{key: key{e.Namespace, e.Name}, filled: len(e.Subsets) > 0}
	_, elects := e.Annotations[leaderAnnotation]
	if !elects && e.Labels[discoveryv1.LabelSkipMirror] != "true" {
		for _, slice := range mirrorSlices(e) {
			m.slices = append(m.slices, c.convert(slice))
		}
	}
	return m
}

// mirrorSlices makes the slices of e: one for each subset and family of addresses. Unlike
// the controller's, their number of endpoints is not bounded, since nothing limits an
// object's size here. Their names cannot be those of slices in a cluster.
func mirrorSlices(e *endpoints) []*discoveryv1.EndpointSlice {
	var slices []*discoveryv1.EndpointSlice
	for i := range e.Subsets {
		subset := &e.Subsets[i]
		byFamily := map[discoveryv1.AddressType][]discoveryv1.Endpoint{}
		mirrorAddresses(byFamily, subset.Addresses, true)
		mirrorAddresses(byFamily, subset.NotReadyAddresses, false)
		for family, list := range byFamily {
			slices = append(slices, &discoveryv1.EndpointSlice{
				ObjectMeta: metav1.ObjectMeta{
					Namespace: e.Namespace,
					Name:      fmt.Sprintf("%s/%d/%s", e.Name, i, family),
					Labels:    map[string]string{discoveryv1.LabelServiceName: e.Name},
				},
				AddressType: family,
				Ports:       mirrorPorts(subset.Ports),
				Endpoints:   list,
			})
		}
	}
	return slices
}

// mirrorAddresses adds addresses to their family's endpoints. One that is no address goes
// to IPv4, where the conversion leaves it out and says so.
func mirrorAddresses(byFamily map[discoveryv1.AddressType][]discoveryv1.Endpoint, from []address, ready bool) {
	for i := range from {
		a := &from[i]
		family := discoveryv1.AddressTypeIPv4
		if addr, ok := parseAddress(a.IP); ok && addr.Is6() {
			family = discoveryv1.AddressTypeIPv6
		}
		byFamily[family] = append(byFamily[family], discoveryv1.Endpoint{
			Addresses:  []string{a.IP},
			Conditions: discoveryv1.EndpointConditions{Ready: &ready},
			Hostname:   a.Hostname,
			NodeName:   a.NodeName,
			TargetRef:  a.TargetRef,
		})
	}
}

func mirrorPorts(from []subsetPort) []discoveryv1.EndpointPort {
	ports := make([]discoveryv1.EndpointPort, len(from))
	for i := range from {
		p := &from[i]
		ports[i] = discoveryv1.EndpointPort{Name: &p.Name, Protocol: &p.Protocol, Port: &p.Port}
	}
	return ports
}
