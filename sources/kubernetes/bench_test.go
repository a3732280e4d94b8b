package kubernetes

import (
	"fmt"
	"log/slog"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshdns/meshdns/sources"
)

// discard is a Sink that keeps nothing.
type discard struct{ updates int }

func (d *discard) Update(sources.Update) { d.updates++ }
func (d *discard) Status(sources.Status) {}

func benchTable(b testing.TB) ([numKinds]*store, *discard) {
	sink := &discard{}
	log := slog.New(slog.DiscardHandler)
	st := newStatus("west", "kubernetes", log, sink, "services", "endpointslices")
	t := newTable("west", time.Minute, sink, st, log)
	b.Cleanup(func() { t.close(); st.close() })
	convert := &converter{}
	var stores [numKinds]*store
	for k := range numKinds {
		stores[k] = &store{kind: k, table: t, convert: convert, replaced: func() {}}
	}
	return stores, sink
}

// benchService and benchSlice have names as long as those of real clusters.
func benchService(i int) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: fmt.Sprintf("team-%03d", i%200), Name: fmt.Sprintf("checkout-backend-%06d", i)},
		Spec:       corev1.ServiceSpec{ClusterIP: "None", Ports: []corev1.ServicePort{{Name: "http", Port: 80}}},
	}
}

func benchSlice(service, n int, serial int) *discoveryv1.EndpointSlice {
	name := fmt.Sprintf("checkout-backend-%06d", service)
	s := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: fmt.Sprintf("team-%03d", service%200), Name: fmt.Sprintf("%s-x%04d", name, n),
			Labels: map[string]string{discoveryv1.LabelServiceName: name},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: ptr("http"), Port: ptr(int32(8080)), Protocol: ptr(corev1.ProtocolTCP)}},
	}
	for e := range 2 {
		at := (serial*2 + e) % (1 << 24)
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{fmt.Sprintf("10.%d.%d.%d", at>>16, at>>8&255, at&255|1)},
			NodeName:  ptr(fmt.Sprintf("node-%05d.example.internal", at%5000)),
			Zone:      ptr(fmt.Sprintf("westus2-%d", at%3)),
			TargetRef: &corev1.ObjectReference{Kind: "Pod", Name: fmt.Sprintf("%s-5d9f7c8b6-%05d", name, at%100_000)},
		})
	}
	return s
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// fill lists n endpoints: two a slice, five slices a service.
func fill(tb testing.TB, stores [numKinds]*store, n int) {
	var list []any
	for i := range n / 10 {
		list = append(list, stores[kindService].compact(benchService(i)))
	}
	require.NoError(tb, stores[kindService].Replace(list, "1"))
	list = nil
	for i := range n / 2 {
		list = append(list, stores[kindSlice].compact(benchSlice(i/5, i%5, i)))
	}
	require.NoError(tb, stores[kindSlice].Replace(list, "1"))
}

// BenchmarkMemory is what the source holds of endpoints in slices of two, and what a
// relist of the same needs on top while it lasts.
func BenchmarkMemory(b *testing.B) {
	const endpoints = 1_000_000
	for b.Loop() {
		stores, sink := benchTable(b)
		before := heap()
		fill(b, stores, endpoints)
		held := heap() - before
		require.Equal(b, endpoints/10, sink.updates)
		var list []any
		for i := range endpoints / 2 {
			list = append(list, stores[kindSlice].compact(benchSlice(i/5, i%5, i)))
		}
		relist := heap() - before
		require.NoError(b, stores[kindSlice].Replace(list, "2"))
		list = nil
		after := heap() - before
		require.Equal(b, endpoints/10, sink.updates, "nothing has changed")
		b.ReportMetric(float64(held)/endpoints, "B/endpoint")
		b.ReportMetric(float64(relist)/float64(held), "relist/held")
		b.ReportMetric(float64(after)/float64(held), "after/held")
		runtime.KeepAlive(stores)
	}
}

// BenchmarkEvent is the way of one changed slice from the reflector to the Sink.
func BenchmarkEvent(b *testing.B) {
	for _, endpoints := range []int{1_000, 100_000} {
		b.Run(fmt.Sprint(endpoints), func(b *testing.B) {
			stores, sink := benchTable(b)
			fill(b, stores, endpoints)
			events := [2]*discoveryv1.EndpointSlice{benchSlice(7, 0, 1), benchSlice(7, 0, 2)}
			before := sink.updates
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				_ = stores[kindSlice].Update(events[n%2])
				n++
			}
			require.GreaterOrEqual(b, sink.updates-before, n-1)
		})
	}
}
