package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshdns/meshdns/e2e/harness"
)

const (
	// largeServices of endpointsEach endpoints each are one cluster of respectable size.
	largeServices = 5000
	endpointsEach = 6
	// writers make the objects at the API server.
	writers = 8
	// memoryChanges are made while both servers run: several garbage collections of each.
	memoryChanges = 3000
	// allowedMemory is the resident memory of the product against CoreDNS's.
	allowedMemory = 0.5
)

// TestMemory measures the resident memory of the product and of CoreDNS's kubernetes plugin,
// both with one large cluster behind a real API server: when they have read it, and at its
// highest while slices change.
func TestMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: makes 10,000 objects")
	}
	need(t, harness.CoreDNS, harness.Meshdns)
	cluster := newCluster(t, "large")
	startCluster(t, cluster)
	require.NoError(t, cluster.PutNamespace(t.Context(), "large"))
	eachNumber(t, largeServices, func(ctx context.Context, n int) error { return createLarge(ctx, cluster, n) })

	mesh := startReady(t, harness.Product{Config: config("", cluster)})
	coredns := startKubernetesCoreDNS(t, cluster)
	last := fmt.Sprintf("api-%d.large.svc.cluster", largeServices-1)
	product := &weighed{process: mesh.Process, contender: newContender(t, "meshdns", mesh.DNS, last+".global A")}
	peer := &weighed{process: coredns.process, contender: newContender(t, "coredns kubernetes", coredns.addr, last+".local A")}
	for _, w := range []*weighed{product, peer} {
		require.NoError(t, w.shows(t.Context(), largeAddress(largeServices-1, endpointsEach-1, 0)), w.name)
		w.weigh(t)
		w.started = w.highest
	}
	for n := range memoryChanges {
		require.NoError(t, cluster.PutSlice(t.Context(), largeSlice(n, 1)))
		if n%100 == 0 {
			product.weigh(t)
			peer.weigh(t)
		}
	}
	for _, w := range []*weighed{product, peer} {
		w.weigh(t)
		t.Logf("%-20s %6.1f MB started, %6.1f MB highest of %d changes", w.name, mb(w.started), mb(w.highest), memoryChanges)
	}
	ratio := float64(product.highest) / float64(peer.highest)
	t.Logf("%d services of %d endpoints: ratio %.2f started, %.2f highest", largeServices, endpointsEach,
		float64(product.started)/float64(peer.started), ratio)
	require.LessOrEqual(t, ratio, allowedMemory)
}

// weighed is a contender with its resident memory.
type weighed struct {
	*contender
	process          *harness.Process
	started, highest int
}

func (w *weighed) weigh(t *testing.T) {
	t.Helper()
	resident, err := w.process.Resident()
	require.NoError(t, err)
	w.highest = max(w.highest, resident)
}

func mb(bytes int) float64 { return float64(bytes) / 1e6 }

// eachNumber calls f for the numbers below n, several at a time.
func eachNumber(t *testing.T, n int, f func(ctx context.Context, n int) error) {
	t.Helper()
	start := time.Now()
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(writers)
	for i := range n {
		group.Go(func() error { return f(ctx, i) })
	}
	require.NoError(t, group.Wait())
	t.Logf("%d services and slices made in %s", n, time.Since(start).Round(time.Second))
}

func createLarge(ctx context.Context, cluster *harness.APIServer, n int) error {
	service, err := harness.Service{
		Namespace: "large", Name: fmt.Sprintf("api-%d", n), Headless: true, Ports: []string{"http:80"},
	}.Object()
	if err != nil {
		return err
	}
	slice, err := largeSlice(n, 0).Object()
	if err != nil {
		return err
	}
	if _, err := cluster.Client.CoreV1().Services("large").Create(ctx, service, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create service %d: %w", n, err)
	}
	if _, err := cluster.Client.DiscoveryV1().EndpointSlices("large").Create(ctx, slice, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create slice %d: %w", n, err)
	}
	return nil
}

// largeSlice is the slice of service n; round makes its first address differ.
func largeSlice(n, round int) harness.Slice {
	s := harness.Slice{
		Namespace: "large", Name: fmt.Sprintf("api-%d-x7k2p", n), Service: fmt.Sprintf("api-%d", n), Ports: []string{"http:80"},
	}
	for e := range endpointsEach {
		s.Endpoints = append(s.Endpoints, harness.Endpoint{
			Address: largeAddress(n, e, round), Pod: fmt.Sprintf("api-%d-7c9f8d6b5d-%05d", n, e),
		})
	}
	return s
}

func largeAddress(n, e, round int) string {
	number := n*endpointsEach + e
	if e > 0 {
		round = 0
	}
	return fmt.Sprintf("10.%d.%d.%d", 20+round*10+number>>16, number>>8&255, number&255)
}
