package bench

import (
	"context"
	"fmt"
	"net/netip"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/meshdns/meshdns/names"
	"github.com/meshdns/meshdns/resolver"
	"github.com/meshdns/meshdns/sources"
	"github.com/meshdns/meshdns/zones"
)

// The shape of the data: services of three clusters with one slice of two ready
// endpoints in each, in namespaces of a hundred services.
const (
	clusters         = 3
	endpointsPerPart = 2
	perNamespace     = 100
	mostServices     = 1_000_000
	inFlight         = 50_000 // updates of a source between two flushes: no list is pushed at once
)

// fleet is a resolver with its zones, filled.
type fleet struct {
	tb        testing.TB
	resolver  *resolver.Resolver
	publisher *zones.Publisher
	services  int
	published func() // when set, called by the owner after each publication
}

// Publish implements resolver.Publisher.
func (f *fleet) Publish(s *resolver.Snapshot, c resolver.Changes) {
	f.publisher.Publish(s, c)
	if f.published != nil {
		f.published()
	}
}

// push has n changes published one after the other: the next one is made and pushed by
// the owner when the one before is in the View, so that none are coalesced, no time goes
// into waking up the benchmark in between, and none are held before their time.
func (f *fleet) push(n int, change func(i int) sources.Update) {
	done := make(chan struct{})
	next := 1
	f.published = func() {
		if next == n {
			f.published = nil
			close(done)
			return
		}
		next++
		f.resolver.Update(change(next - 1))
	}
	f.resolver.Update(change(0))
	<-done
}

// clusterNames and namespaces are texts that a source has once, as do the fixtures.
var (
	clusterNames = [clusters]string{"c1", "c2", "c3"}
	namespaces   = func() (out [mostServices/perNamespace + 1]string) {
		for i := range out {
			out[i] = fmt.Sprintf("team-%d", i)
		}
		return out
	}()
)

func clusterName(c int) string { return clusterNames[c] }

func settings() *resolver.Settings {
	s := &resolver.Settings{
		Site:        clusterName(0),
		Equivalence: resolver.Equivalence{Match: resolver.MatchName, Exclude: []string{"default/kubernetes", "kube-system/*"}},
		Staleness:   resolver.Staleness{KeepShared: time.Minute, KeepOnly: time.Hour, Then: resolver.ThenServfail},
		TTL:         5 * time.Second,
	}
	for c := range clusters {
		s.Clusters = append(s.Clusters, resolver.Cluster{Name: clusterName(c), Role: resolver.Core, Reach: resolver.ReachEndpoints})
	}
	return s
}

func naming() *zones.Naming {
	return &zones.Naming{
		Mesh: names.MustParse("mesh"), Global: names.MustParse("cluster.global"), PerCluster: "cluster.{id}",
		Glue: []netip.Addr{netip.MustParseAddr("127.0.0.1")}, NegativeTTL: 5 * time.Second, TTL: 5 * time.Second,
	}
}

func newPublisher() *zones.Publisher { return zones.New(zones.Config{Naming: naming()}) }

// newFleet makes a fleet of about that many endpoints.
func newFleet(tb testing.TB, endpoints int) *fleet {
	f := emptyFleet(tb, max(1, endpoints/(clusters*endpointsPerPart)))
	tb.Cleanup(f.run())
	f.fill(func(c, i int) sources.Update { return update(c, i, service(c, i, 0)) })
	return f
}

// emptyFleet has nothing yet, and its resolver does not run.
func emptyFleet(tb testing.TB, services int) *fleet {
	f := &fleet{tb: tb, services: services, publisher: newPublisher()}
	f.resolver = resolver.New(resolver.Config{Settings: settings(), Publisher: f})
	return f
}

// run has the resolver run until stop returns.
func (f *fleet) run() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = f.resolver.Run(ctx) }()
	return func() { cancel(); <-done }
}

// fill pushes all services of all clusters, and returns when they are in the View. As in a
// server there is a source for each cluster, and all of them push at the same time.
func (f *fleet) fill(of func(c, i int) sources.Update) {
	var pushing sync.WaitGroup
	for c := range clusters {
		pushing.Go(func() {
			for i := range f.services {
				f.resolver.Update(of(c, i))
				if i%inFlight == inFlight-1 {
					f.flush()
				}
			}
			f.resolver.Status(sources.Status{Source: clusterName(c), Kind: "kubernetes", Synced: true})
		})
	}
	pushing.Wait()
	f.flush()
}

func (f *fleet) flush() { assert.NoError(f.tb, f.resolver.Flush(context.Background())) }

func namespaceOf(i int) string { return namespaces[i/perNamespace] }
func nameOf(i int) string      { return "service-" + strconv.Itoa(i) }

// podOf is endpoint e of service i, zoneOf and nodeOf are those of endpoint n, which only
// the API servers tell of: names are as long as those of real clusters.
func podOf(i, e int) string { return nameOf(i) + "-7c9f8d6b5d-" + strconv.Itoa(10_000+e) }
func zoneOf(n int) string   { return "westus2-" + strconv.Itoa(n%3) }
func nodeOf(c, n int) string {
	return "node-" + strconv.Itoa(10_000+n%5000) + "." + clusterName(c) + ".example.internal"
}

func update(c, i int, s sources.Service) sources.Update {
	u := sources.Update{Key: sources.Key{
		Source: clusterName(c), Kind: sources.KindService, Namespace: namespaceOf(i), Name: nameOf(i),
	}}
	if s != "" {
		u.Value = s
	}
	return u
}

var ports = []sources.Port{{Name: "http", Protocol: sources.TCP, Number: 8080}}

// service is service i of cluster c; round makes its addresses differ.
func service(c, i, round int) sources.Service {
	slice := sources.SliceFields{Name: nameOf(i) + "-x7k2p", Ports: ports}
	for e := range endpointsPerPart {
		n := i*endpointsPerPart + e
		slice.Endpoints = append(slice.Endpoints, sources.Endpoint{
			Address:  address(c, n, round),
			Hostname: podOf(i, e),
		})
	}
	fields := sources.ServiceFields{
		Type: sources.ClusterIP, Created: time.Unix(1_700_000_000+int64(i), 0), Ports: ports,
		Slices: []sources.Slice{slice.Pack()}, ClusterIPs: []netip.Addr{address(200+c, i, 0)},
	}
	return fields.Pack()
}

func address(c, n, round int) netip.Addr {
	n += round * 7919
	return netip.AddrFrom4([4]byte{byte(10 + c), byte(n >> 16), byte(n >> 8), byte(n)})
}
