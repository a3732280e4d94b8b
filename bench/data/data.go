// Package data is the made-up mesh that load tests ask every server for: services in
// namespaces of a hundred, each in several clusters with a slice of two ready endpoints in
// each. The same names and addresses come in the form that each server reads:
//
//	data.go      names and addresses, and what a right answer holds
//	zonefile.go  a zone file for NSD, Knot and CoreDNS
//	manifests.go Kubernetes objects as files, one folder for each cluster
//	updates.go   what a source would push, for servers in process
//	packed.go    answers in wire form, for the bare loop
//	queries.go   the questions, in the form that dnsperf reads
package data

import (
	"fmt"
	"net/netip"
)

const (
	// Zone is where the names are, without the final dot.
	Zone = "cluster.global"
	// Port is the only one of each service.
	Port = 8080
	// PerNamespace services share a namespace, and with it a file of manifests.
	PerNamespace = 100
)

// Fleet is the mesh's size. All fields must be above 0.
type Fleet struct {
	Services int
	Clusters int  // at most 64
	PerSlice int  // ready endpoints of a service in one cluster
	TTL      int  // seconds
	Headless bool // services without a virtual address, so that a cluster's own DNS gives endpoints too
}

// OneCluster is a mesh for a comparison with a cluster's own DNS: headless services with
// one slice of six.
func OneCluster(services int) Fleet {
	return Fleet{Services: services, Clusters: 1, PerSlice: 6, TTL: 300, Headless: true}
}

// Default is the shape that the project's bars speak of: six addresses from three
// clusters. The TTL is long enough that no cache asks again during a run.
func Default(services int) Fleet {
	return Fleet{Services: services, Clusters: 3, PerSlice: 2, TTL: 300}
}

// Endpoints is how many the whole mesh has.
func (f Fleet) Endpoints() int { return f.Services * f.Clusters * f.PerSlice }

// Cluster is the name of cluster c, from 0.
func (f Fleet) Cluster(c int) string { return fmt.Sprintf("c%d", c+1) }

// Namespaces is how many there are.
func (f Fleet) Namespaces() int { return (f.Services + PerNamespace - 1) / PerNamespace }

// Namespace is that of service i, from 0.
func (f Fleet) Namespace(i int) string { return fmt.Sprintf("team-%d", i/PerNamespace) }

// Service is the name of service i, from 0.
func (f Fleet) Service(i int) string { return fmt.Sprintf("service-%d", i) }

// Host is the DNS name of service i, without the final dot.
func (f Fleet) Host(i int) string {
	return fmt.Sprintf("%s.%s.svc.%s", f.Service(i), f.Namespace(i), Zone)
}

// pod names endpoint e of service i as a deployment would.
func (f Fleet) pod(i, e int) string { return fmt.Sprintf("%s-7c9f8d6b5-%05d", f.Service(i), e) }

// Address is endpoint e of service i in cluster c. round makes addresses of later changes
// differ; 0 is what is there at first. Up to 2^24 addresses of a cluster are all different.
func (f Fleet) Address(c, i, e, round int) netip.Addr {
	n := i*f.PerSlice + e + round*7919
	return netip.AddrFrom4([4]byte{byte(10 + c), byte(n >> 16), byte(n >> 8), byte(n)})
}

// clusterIP is spec.clusterIP of service i.
func (f Fleet) clusterIP(i int) string {
	if f.Headless {
		return "None"
	}
	return f.virtual(i).String()
}

// virtual is the virtual address of service i, the same in all clusters, as it may be.
func (f Fleet) virtual(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{100, 64 + byte(i>>16), byte(i >> 8), byte(i)})
}

// Addresses are all of service i, by cluster.
func (f Fleet) Addresses(i int) []netip.Addr {
	all := make([]netip.Addr, 0, f.Clusters*f.PerSlice)
	for c := range f.Clusters {
		for e := range f.PerSlice {
			all = append(all, f.Address(c, i, e, 0))
		}
	}
	return all
}
