// Package registry turns documents (MeshService of meshdns.io/v1alpha1, the proposal's
// Service of specs.smi-spec.io/v1alpha1) into values. There is one decoder, whether a
// document comes from a file or from a cluster.
//
//	registry.go  the values
//	decode.go    a file's documents → values, strictly; which kinds are read
//	service.go   one document's name, ports, identity, policy
//	backend.go   one backend: type, cluster, what is not yet effective
//	locator.go   what a locator of each backend type may be: Kubernetes, DNS, Static
//	cloud.go     the same for Azure, AWS, GCP, Consul
//	set.go       what only several documents together show: names given twice, loops
//
// The way on: sources/files pushes the values to the resolver, which merges them
// (resolver/mesh.go).
package registry

import (
	"net/netip"
	"time"

	"github.com/meshdns/meshdns/document"
	"github.com/meshdns/meshdns/names"
	"github.com/meshdns/meshdns/sources"
)

// BackendType is the kind of a backend, as written in a document.
type BackendType string

const (
	Kubernetes BackendType = "Kubernetes"
	DNS        BackendType = "DNS"
	Azure      BackendType = "Azure"
	AWS        BackendType = "AWS"
	GCP        BackendType = "GCP"
	Consul     BackendType = "Consul"
	Static     BackendType = "Static"
)

// Words of a backend's cluster field (second seed): absent, empty and "local" mean the
// local cluster and are decoded to LocalCluster; "*" means all of the set.
const (
	LocalCluster = ""
	AllClusters  = "*"
)

// MeshService is a registered name.
type MeshService struct {
	Name     names.Name // below the mesh zone
	Origin   Origin
	Created  time.Time // metadata.creationTimestamp; zero from files
	Labels   map[string]string
	Backends []Backend // at least one
	Ports    []sources.Port
	TTL      time.Duration // meaningful only with HasTTL: TTL 0 and absent differ
	HasTTL   bool
	Identity string // SPIFFE ID, "" without one
	Policy   Policy

	// Faults are the errors for which a document is left out. With any, nothing but Name
	// and Origin is set: that the name is registered is all that is known of it.
	Faults []document.Problem

	nameAt document.Place // of metadata.name in Origin.File, for CheckSet
}

// Refuse is the document of which nothing but its name can be used, because of faults.
func (s *MeshService) Refuse(faults []document.Problem) *MeshService {
	return &MeshService{Name: s.Name, Origin: s.Origin, Faults: faults, nameAt: s.nameAt}
}

// ValueKind implements sources.Value.
func (*MeshService) ValueKind() sources.Kind { return sources.KindDocument }

// Origin is where a document came from.
type Origin struct {
	Source string // the sources.Status.Source that it came by
	File   string // path as configured, "" when not from a file
	Line   int    // of the document's first line, from 1
	Kind   string // "MeshService" or "Service"
}

// Backend is one group of endpoints of a name.
type Backend struct {
	Type      BackendType
	Locator   string // as written
	Cluster   string // LocalCluster, AllClusters or a cluster's name
	Port      uint16 // 0 when absent
	Weight    int    // meaningful only with HasWeight
	HasWeight bool
	Priority  int

	// What the locator says, by Type.
	Namespace, Service string       // Kubernetes
	Host               names.Name   // DNS: a host, or _service._proto.host when SRV
	SRV                bool         // DNS: follow SRV records of Host
	Addresses          []netip.Addr // Static, in the written order, no duplicates

	field     string         // of the backend in its document: "spec" or "spec.backends[0]"
	locatorAt document.Place // for CheckSet
}

// BackendKey is the locator in canonical form, as sources key it (sources.KindBackend);
// "" for Kubernetes and Static backends, which no locator source resolves.
func (b *Backend) BackendKey() string {
	switch b.Type {
	case Kubernetes, Static:
		return ""
	case DNS:
		return b.Host.Text()
	default:
		return b.Locator
	}
}

// Target is the host that a DNS backend's locator names; of one that follows SRV also
// the port's name and protocol.
func (b *Backend) Target() (host names.Name, port sources.Port) {
	if !b.SRV {
		return b.Host, port
	}
	labels := b.Host.Labels()
	port.Name = labels[0][1:]
	for _, p := range []sources.Protocol{sources.TCP, sources.UDP, sources.SCTP} {
		if p.Label() == labels[1] {
			port.Protocol = p
		}
	}
	return b.Host.Parent().Parent(), port
}

// Policy is how answers are chosen.
type Policy struct {
	Order          string // "" or "shuffle"
	Locality       string // "", "none", "prefer", "strict"
	MaxAnswers     int    // 0: all
	PanicThreshold int    // percent
}
