package kubernetes

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshdns/meshdns/sources"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// sink is a sources.Sink that keeps everything.
type sink struct {
	mu       sync.Mutex
	updates  []sources.Update
	statuses []sources.Status
	values   map[string]sources.Service // the current ones, by "namespace/name"
	changed  chan struct{}              // closed and replaced at each call
}

func newSink() *sink {
	return &sink{values: map[string]sources.Service{}, changed: make(chan struct{})}
}

func (s *sink) Update(u sources.Update) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.updates = append(s.updates, u)
	name := u.Key.Namespace + "/" + u.Key.Name
	if u.Value == nil {
		delete(s.values, name)
	} else {
		s.values[name] = u.Value.(sources.Service)
	}
	s.signalLocked()
}

func (s *sink) Status(st sources.Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.statuses = append(s.statuses, st)
	s.signalLocked()
}

func (s *sink) signalLocked() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// count is the number of Updates so far.
func (s *sink) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.updates)
}

// reports is the number of Statuses so far.
func (s *sink) reports() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.statuses)
}

// size is the number of current values.
func (s *sink) size() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.values)
}

// since are the Updates after the first n.
func (s *sink) since(n int) []sources.Update {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.updates[n:])
}

// status is the latest Status.
func (s *sink) status() sources.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.statuses) == 0 {
		return sources.Status{}
	}
	return s.statuses[len(s.statuses)-1]
}

// service is the current value of "namespace/name", "" without one.
func (s *sink) service(name string) sources.Service {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.values[name]
}

// text is all that is current, a line a service: name, then each slice's addresses.
func (s *sink) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var lines []string
	for name, v := range s.values {
		lines = append(lines, name+" "+describe(v))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func describe(v sources.Service) string {
	var b strings.Builder
	for list := v.Slices(); list.Next(); {
		fmt.Fprintf(&b, "[%s", list.Name())
		for e := list.Endpoints(); e.Next(); {
			fmt.Fprintf(&b, " %s", e.Address)
		}
		b.WriteString("]")
	}
	return b.String()
}

// slice is the n-th slice of the current value of "namespace/name".
func (s *sink) slice(name string, n int) sources.Slice { return s.service(name).AppendSlices(nil)[n] }

// until waits for a state of the sink.
func (s *sink) until(t *testing.T, what string, is func() bool) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	for {
		s.mu.Lock()
		changed := s.changed
		s.mu.Unlock()
		if is() {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			require.FailNow(t, "never came: "+what, "status %+v\n%s", s.status(), s.text())
		}
	}
}

// untilText waits for exactly these services, given as text gives them.
func (s *sink) untilText(t *testing.T, want ...string) {
	t.Helper()
	slices.Sort(want)
	s.until(t, strings.Join(want, "\n"), func() bool { return s.text() == strings.Join(want, "\n") })
}

// logs is a logger that keeps its lines.
type logs struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logs) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// count is the number of lines with text in them.
func (l *logs) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	count := 0
	for line := range strings.Lines(l.buf.String()) {
		if strings.Contains(line, text) {
			count++
		}
	}
	return count
}

// fixture is a table with the sink that it pushes to.
type fixture struct {
	t     *testing.T
	sink  *sink
	logs  *logs
	table *table
	store [numKinds]*store
}

// newFixture is a table that has not been listed yet.
func newFixture(t *testing.T) *fixture {
	f := &fixture{t: t, sink: newSink(), logs: &logs{}}
	st := newStatus("west", "kubernetes", f.logs.logger(), f.sink, "services", "endpointslices")
	f.table = newTable("west", time.Minute, f.sink, st, f.logs.logger())
	convert := &converter{equivalence: "meshdns.io/equivalent-to"}
	for k := range numKinds {
		f.store[k] = &store{kind: k, table: f.table, convert: convert, replaced: func() {}}
	}
	st.start()
	t.Cleanup(func() {
		f.table.close()
		st.close()
	})
	return f
}

// listed takes first lists.
func (f *fixture) listed(objects ...metav1.Object) *fixture {
	f.relist(kindService, objects...)
	f.relist(kindSlice, objects...)
	return f
}

// relist takes those of objects that are of kind k as its whole list.
func (f *fixture) relist(k kind, objects ...metav1.Object) {
	var list []any
	for _, o := range objects {
		if kindOf(o) == k {
			list = append(list, o)
		}
	}
	require.NoError(f.t, f.store[k].Replace(list, "1"))
}

func (f *fixture) set(objects ...metav1.Object) {
	for _, o := range objects {
		require.NoError(f.t, f.store[kindOf(o)].Update(o))
	}
}

func (f *fixture) delete(objects ...metav1.Object) {
	for _, o := range objects {
		require.NoError(f.t, f.store[kindOf(o)].Delete(o))
	}
}

func (f *fixture) wantText(want ...string) {
	f.t.Helper()
	slices.Sort(want)
	assert.Equal(f.t, strings.Join(want, "\n"), f.sink.text())
}

func kindOf(o metav1.Object) kind {
	if _, ok := o.(*discoveryv1.EndpointSlice); ok {
		return kindSlice
	}
	return kindService
}

// newService is a ClusterIP service of namespace shop.
func newService(name string, change ...func(*corev1.Service)) *corev1.Service {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name},
		Spec: corev1.ServiceSpec{
			ClusterIP:  "10.96.0.1",
			ClusterIPs: []string{"10.96.0.1"},
			Ports:      []corev1.ServicePort{{Name: "http", Port: 80, Protocol: corev1.ProtocolTCP}},
		},
	}
	for _, f := range change {
		f(s)
	}
	return s
}

// newSlice is an IPv4 slice of service in namespace shop with port http 8080.
func newSlice(service, name string, addresses ...string) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: name,
			Labels: map[string]string{discoveryv1.LabelServiceName: service},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: ptr("http"), Port: ptr(int32(8080)), Protocol: ptr(corev1.ProtocolTCP)}},
	}
	for _, a := range addresses {
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{a}})
	}
	return s
}

func ptr[T any](v T) *T { return &v }

// toJSON is an object as the API sends it.
func toJSON(t *testing.T, o any) []byte {
	data, err := json.Marshal(o)
	require.NoError(t, err)
	return data
}
