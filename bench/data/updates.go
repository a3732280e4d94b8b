package data

import (
	"net/netip"

	"github.com/meshdns/meshdns/sources"
)

// Update is what the source of cluster c pushes of service i. Each round has other
// addresses; 0 is what is there at first.
func (f Fleet) Update(c, i, round int) sources.Update {
	ports := []sources.Port{{Name: "http", Protocol: sources.TCP, Number: Port}}
	slice := &sources.SliceFields{Name: f.Service(i) + "-abcde", Ports: ports}
	for e := range f.PerSlice {
		slice.Endpoints = append(slice.Endpoints, sources.Endpoint{
			Address: f.Address(c, i, e, round), Hostname: f.pod(i, e),
		})
	}
	service := &sources.ServiceFields{Type: sources.Headless, Ports: ports, Slices: []sources.Slice{slice.Pack()}}
	if !f.Headless {
		service.Type, service.ClusterIPs = sources.ClusterIP, []netip.Addr{f.virtual(i)}
	}
	return sources.Update{
		Key:   sources.Key{Source: f.Cluster(c), Kind: sources.KindService, Namespace: f.Namespace(i), Name: f.Service(i)},
		Value: service.Pack(),
	}
}
