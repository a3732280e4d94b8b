package main

import (
	"context"
	"net/netip"
	"sync"
	"time"

	"github.com/meshdns/meshdns/bench/data"
	"github.com/meshdns/meshdns/names"
	"github.com/meshdns/meshdns/resolver"
	"github.com/meshdns/meshdns/sources"
	"github.com/meshdns/meshdns/zones"
)

// fleet is a resolver with its zones, and the times of changes on their way.
type fleet struct {
	data.Fleet
	resolver  *resolver.Resolver
	publisher *zones.Publisher
	cancel    context.CancelFunc
	ended     chan struct{}
	pushed    int // changes so far; used by pace alone

	mu        sync.Mutex
	underWay  map[resolver.ServiceName]time.Time // when the first change that is not seen yet was pushed
	latencies []time.Duration                    // of changes seen since the last report
	coalesced int                                // changes that went with one before, since the last report
}

func newFleet(d data.Fleet) (*fleet, error) {
	mesh, err := names.Parse("mesh")
	if err != nil {
		return nil, err
	}
	global, err := names.Parse(data.Zone)
	if err != nil {
		return nil, err
	}
	f := &fleet{Fleet: d, ended: make(chan struct{}), underWay: map[resolver.ServiceName]time.Time{}}
	f.publisher = zones.New(zones.Config{Naming: &zones.Naming{
		Mesh: mesh, Global: global, PerCluster: "cluster.{id}",
		Glue: []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})}, NegativeTTL: 5 * time.Second, TTL: f.ttl(),
	}})
	f.resolver = resolver.New(resolver.Config{Settings: f.settings(), Publisher: f})
	ctx, cancel := context.WithCancel(context.Background())
	f.cancel = cancel
	go func() { defer close(f.ended); _ = f.resolver.Run(ctx) }() // nil: it runs until cancel
	f.load()
	return f, nil
}

func (f *fleet) ttl() time.Duration { return time.Duration(f.TTL) * time.Second }

func (f *fleet) settings() *resolver.Settings {
	s := &resolver.Settings{
		Site:        f.Cluster(0),
		Equivalence: resolver.Equivalence{Match: resolver.MatchName},
		Staleness:   resolver.Staleness{KeepShared: time.Hour, KeepOnly: time.Hour, Then: resolver.ThenServfail},
		TTL:         f.ttl(),
	}
	for c := range f.Clusters {
		s.Clusters = append(s.Clusters, resolver.Cluster{Name: f.Cluster(c), Role: resolver.Core, Reach: resolver.ReachEndpoints})
	}
	return s
}

// load pushes everything once.
func (f *fleet) load() {
	for c := range f.Clusters {
		for i := range f.Services {
			f.resolver.Update(f.Update(c, i, 0))
		}
		f.resolver.Status(sources.Status{Source: f.Cluster(c), Kind: "kubernetes", Synced: true})
	}
	f.flush()
}

// flush waits until all that was pushed is published.
func (f *fleet) flush() { _ = f.resolver.Flush(context.Background()) } // never cancelled

func (f *fleet) close() {
	f.cancel()
	<-f.ended
}

// push makes the next change, of a service far from the one before.
func (f *fleet) push() {
	f.pushed++
	i := f.pushed * 7919 % f.Services
	u := f.Update(f.pushed%f.Clusters, i, f.pushed)
	name := resolver.ServiceName{Namespace: u.Key.Namespace, Name: u.Key.Name}
	f.mu.Lock()
	if _, ok := f.underWay[name]; ok {
		f.coalesced++
	} else {
		f.underWay[name] = time.Now()
	}
	f.mu.Unlock()
	f.resolver.Update(u)
}

// Publish implements resolver.Publisher.
func (f *fleet) Publish(s *resolver.Snapshot, c resolver.Changes) {
	f.publisher.Publish(s, c)
	now := time.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, name := range c.Services {
		if at, ok := f.underWay[name.ServiceName]; ok {
			f.latencies = append(f.latencies, now.Sub(at))
			delete(f.underWay, name.ServiceName)
		}
	}
}
