package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"

	"github.com/meshdns/meshdns/e2e/harness"
)

const (
	// changesEach is how many changes are measured at each server: the 99th percentile of
	// 1,000 has ten samples above it, so that one stray pause decides nothing.
	changesEach = 1000
	// otherServices stand beside the one that changes.
	otherServices = 200
	// allowedRatio is how much slower the product may be than CoreDNS's kubernetes plugin.
	allowedRatio = 1.5
)

// contender is one of the two servers that watch the same API server.
type contender struct {
	name    string
	poller  *harness.Poller
	samples []time.Duration
}

// TestUpdateLatency measures from the return of the API call that changes a slice until
// an answer shows the change, at the product and at CoreDNS's kubernetes plugin. Both run
// all the time and see all changes; each change is timed at one of them, in random order,
// and the next is made when both have seen it, so that both meet the same machine.
func TestUpdateLatency(t *testing.T) {
	need(t, harness.CoreDNS, harness.Meshdns)
	west, _ := clusters(t)
	ns := namespace(t, "latency", west)
	populate(t, west, ns)
	mesh := startReady(t, harness.Product{Config: config("", west)})
	coredns := startKubernetesCoreDNS(t, west)
	contenders := []*contender{
		newContender(t, "meshdns", mesh.DNS, "api.latency.svc.cluster.global A"),
		newContender(t, "coredns kubernetes", coredns.addr, "api.latency.svc.cluster.local A"),
	}

	start := time.Now()
	measure(t, west, ns, contenders)
	t.Logf("%d changes of a slice of 6 among %d services in %s", 2*changesEach, otherServices+1, time.Since(start).Round(time.Second))
	t.Log("from the return of the API call to the answer:\n" + table(contenders))
	ratio := float64(percentile(contenders[0].samples, 99)) / float64(percentile(contenders[1].samples, 99))
	require.LessOrEqual(t, ratio, allowedRatio, "p99 of the product against CoreDNS's")
}

func newContender(t *testing.T, name, addr, question string) *contender {
	t.Helper()
	poller, err := harness.NewPoller(addr, parse(t, question))
	require.NoError(t, err)
	t.Cleanup(func() { poller.Close() })
	return &contender{name: name, poller: poller}
}

// populate makes the services that do not change.
func populate(t *testing.T, cluster *harness.APIServer, ns string) {
	t.Helper()
	for i := range otherServices {
		name := fmt.Sprintf("other-%d", i)
		put(t, cluster,
			harness.Service{Namespace: ns, Name: name, Headless: true, Ports: []string{"http:80"}},
			harness.Slice{Namespace: ns, Name: name, Service: name, Ports: []string{"http:80"},
				Endpoints: harness.Ready(fmt.Sprintf("10.2.%d.1", i), fmt.Sprintf("10.2.%d.2", i))})
	}
	put(t, cluster, harness.Service{Namespace: ns, Name: "api", Headless: true, Ports: []string{"http:80"}}, changed(ns, 0))
}

// changed is the slice after its nth change: five addresses that stay and a new one.
func changed(ns string, n int) harness.Slice {
	return harness.Slice{Namespace: ns, Name: "api-1", Service: "api", Ports: []string{"http:80"},
		Endpoints: harness.Ready("10.3.0.1", "10.3.0.2", "10.3.0.3", "10.3.0.4", "10.3.0.5", changedAddress(n))}
}

func changedAddress(n int) string { return fmt.Sprintf("10.4.%d.%d", n/250, n%250) }

// measure makes the changes and fills the samples.
func measure(t *testing.T, cluster *harness.APIServer, ns string, contenders []*contender) {
	t.Helper()
	for _, c := range contenders {
		require.NoError(t, c.shows(t.Context(), changedAddress(0)), c.name)
	}
	n := 0
	for range changesEach {
		for _, i := range rand.Perm(len(contenders)) {
			n++
			timed := contenders[i]
			require.NoError(t, cluster.PutSlice(t.Context(), changed(ns, n)))
			returned := time.Now()
			require.NoError(t, timed.shows(t.Context(), changedAddress(n)), timed.name)
			timed.samples = append(timed.samples, time.Since(returned))
			for _, other := range contenders {
				require.NoError(t, other.shows(t.Context(), changedAddress(n)), other.name)
			}
		}
	}
}

// shows asks without a pause until the answer has the address.
func (c *contender) shows(ctx context.Context, address string) error {
	deadline := time.Now().Add(settles)
	var reply dns.Msg
	for ctx.Err() == nil {
		if err := c.poller.Ask(&reply); err != nil {
			return err
		}
		if slices.Contains(harness.Addresses(&reply), address) {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s is not in the answer after %s: %s", address, settles, harness.Summary(&reply))
		}
	}
	return ctx.Err()
}

// table shows the percentiles of both, and the first against the second.
func table(contenders []*contender) string {
	columns := []float64{50, 90, 99, 100}
	var b strings.Builder
	fmt.Fprintf(&b, "%-20s %9s %9s %9s %9s\n", "", "p50", "p90", "p99", "max")
	for _, c := range contenders {
		fmt.Fprintf(&b, "%-20s", c.name)
		for _, p := range columns {
			fmt.Fprintf(&b, " %6.3f ms", float64(percentile(c.samples, p))/float64(time.Millisecond))
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "%-20s", "ratio")
	for _, p := range columns {
		fmt.Fprintf(&b, " %9.2f", float64(percentile(contenders[0].samples, p))/float64(percentile(contenders[1].samples, p)))
	}
	return b.String()
}

// percentile is the smallest sample that p percent of all are not above.
func percentile(samples []time.Duration, p float64) time.Duration {
	sorted := slices.Sorted(slices.Values(samples))
	index := int(p/100*float64(len(sorted))+0.999999) - 1
	return sorted[min(max(index, 0), len(sorted)-1)]
}
