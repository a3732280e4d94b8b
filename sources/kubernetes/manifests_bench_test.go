package kubernetes

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/meshdns/meshdns/sources"
)

// firstSync is a Sink that counts, and says when the first list was there.
type firstSync struct {
	mu      sync.Mutex
	updates int
	synced  bool
	done    chan struct{}
}

func (s *firstSync) Update(sources.Update) {
	s.mu.Lock()
	s.updates++
	s.mu.Unlock()
}

func (s *firstSync) Status(st sources.Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if st.Synced && !s.synced {
		s.synced = true
		close(s.done)
	}
}

// benchManifests writes n services with a slice of two endpoints each, perFile of them in
// a file, as "kubectl get -o json" and "-o yaml" print a List. It returns their size.
func benchManifests(tb testing.TB, dir, ending string, n, perFile int) (size int64) {
	for first := 0; first < n; first += perFile {
		var items []any
		for i := first; i < min(n, first+perFile); i++ {
			service, slice := benchService(i), benchSlice(i, 0, i)
			service.APIVersion, service.Kind = "v1", "Service"
			slice.APIVersion, slice.Kind = "discovery.k8s.io/v1", "EndpointSlice"
			items = append(items, service, slice)
		}
		text, err := json.MarshalIndent(map[string]any{"apiVersion": "v1", "items": items, "kind": "List"}, "", "  ")
		require.NoError(tb, err)
		if ending == "yaml" {
			text = asYAML(tb, text)
		}
		size += int64(len(text))
		writeFile(tb, filepath.Join(dir, fmt.Sprintf("%06d.%s", first, ending)), string(text))
	}
	return size
}

func asYAML(tb testing.TB, text []byte) []byte {
	var value any
	require.NoError(tb, yaml.Unmarshal(text, &value))
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	encoder.CompactSeqIndent()
	require.NoError(tb, encoder.Encode(value))
	return out.Bytes()
}

// BenchmarkManifests is the start from a folder of manifests, up to the Sink.
func BenchmarkManifests(b *testing.B) {
	services := map[string]int{"json": 20_000, "yaml": 2_000}
	for _, ending := range []string{"json", "yaml"} {
		b.Run(ending, func(b *testing.B) {
			n := services[ending]
			if testing.Short() {
				n /= 20
			}
			dir := b.TempDir()
			b.SetBytes(benchManifests(b, dir, ending, n, 500))
			b.ReportAllocs()
			before := heap()
			var held uint64
			for b.Loop() {
				source, err := New(Config{Name: "west", Manifests: dir})
				require.NoError(b, err)
				ctx, stop := context.WithCancel(b.Context())
				sink, ended := &firstSync{done: make(chan struct{})}, make(chan error)
				go func() { ended <- source.Run(ctx, sink) }()
				<-sink.done
				b.StopTimer()
				held = heap() - before
				stop()
				require.NoError(b, <-ended)
				require.Equal(b, n, sink.updates)
				b.StartTimer()
			}
			b.ReportMetric(float64(held)/float64(2*n), "held-B/endpoint")
		})
	}
}
