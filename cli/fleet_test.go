package cli

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"go.uber.org/goleak"

	"github.com/meshdns/meshdns/sources"
)

// port is a sink that remembers statuses.
type port struct {
	mu       sync.Mutex
	statuses []sources.Status
}

func (p *port) Update(sources.Update) {}

func (p *port) Status(s sources.Status) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.statuses = append(p.statuses, s)
}

func (p *port) take() []sources.Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	taken := p.statuses
	p.statuses = nil
	return taken
}

// boat is a source that says when it starts and runs until it is told to end.
type boat struct {
	started chan struct{}
	fails   error
	sink    sources.Sink // from started on
}

func (b *boat) Run(ctx context.Context, sink sources.Sink) error {
	b.sink = sink
	close(b.started)
	if b.fails != nil {
		return b.fails
	}
	<-ctx.Done()
	return nil
}

// harbour makes plans and counts how often each was made.
type harbour struct {
	made map[string]int
	boat map[string]*boat
}

func (h *harbour) plan(name, identity string) plan {
	return plan{name: name, kind: "test", identity: identity, make: func() (sources.Source, error) {
		h.made[name]++
		h.boat[name] = &boat{started: make(chan struct{})}
		return h.boat[name], nil
	}}
}

func (h *harbour) apply(ctx context.Context, f *fleet, plans ...plan) {
	f.stopOthers(plans)
	f.withdraw()
	f.start(ctx, plans)
	for _, p := range plans {
		if b := h.boat[p.name]; b != nil {
			<-b.started
		}
	}
}

// CASES C136, FAULTS 17: what leaves the configuration stops and is withdrawn, what
// stays goes on, what changes is started anew.
func TestFleetFollowsPlans(t *testing.T) {
	defer goleak.VerifyNone(t)
	sink := &port{}
	h := &harbour{made: map[string]int{}, boat: map[string]*boat{}}
	f := newFleet(sink, slog.New(slog.DiscardHandler))

	h.apply(t.Context(), f, h.plan("east", "1"), h.plan("west", "1"), h.plan("north", "1"))
	assert.Empty(t, sink.take())

	h.apply(t.Context(), f, h.plan("east", "1"), h.plan("west", "2"), h.plan("south", "1"))
	assert.Equal(t, map[string]int{"east": 1, "west": 2, "north": 1, "south": 1}, h.made)
	assert.ElementsMatch(t, []sources.Status{{Source: "north"}}, sink.take(), "west goes on, from elsewhere")

	f.close()
	assert.Empty(t, f.running)
	assert.Empty(t, sink.take(), "the last answers stay")
}

func TestFleetSaysWhatCannotWork(t *testing.T) {
	defer goleak.VerifyNone(t)
	sink := &port{}
	f := newFleet(sink, slog.New(slog.DiscardHandler))
	broken := plan{name: "east", kind: "test", make: func() (sources.Source, error) { return nil, errors.New("no such file") }}
	f.start(t.Context(), []plan{broken})
	assert.Equal(t, []sources.Status{{Source: "east", Kind: "test", Error: "no such file"}}, sink.take())
	assert.Empty(t, f.running)
	f.stopOthers(nil)
	assert.Empty(t, sink.take(), "not before the settings have changed")
	f.withdraw()
	assert.Equal(t, []sources.Status{{Source: "east"}}, sink.take(), "withdrawn, so that it is not shown for ever")

	b := &boat{started: make(chan struct{}), fails: errors.New("no such context")}
	f.start(t.Context(), []plan{{name: "east", kind: "test", make: func() (sources.Source, error) { return b, nil }}})
	f.close()
	assert.Equal(t, []sources.Status{{Source: "east", Kind: "test", Error: "no such context"}}, sink.take())
}

// A cluster whose kubeconfig changes keeps its data until the new one has been listed;
// then what only the old one said is withdrawn.
func TestFleetHandsOver(t *testing.T) {
	defer goleak.VerifyNone(t)
	sink := &port{}
	h := &harbour{made: map[string]int{}, boat: map[string]*boat{}}
	f := newFleet(sink, slog.New(slog.DiscardHandler))
	var took []map[sources.Key]struct{}
	f.takeOver = func(source string, seen map[sources.Key]struct{}) {
		assert.Equal(t, "east", source)
		assert.Empty(t, sink.take(), "before the source counts as synced")
		took = append(took, seen)
	}
	h.apply(t.Context(), f, h.plan("east", "1"))
	h.boat["east"].sink.Status(sources.Status{Source: "east", Kind: "test", Synced: true})
	assert.Len(t, sink.take(), 1)
	assert.Empty(t, took, "the first start takes nothing over")

	h.apply(t.Context(), f, h.plan("east", "2"))
	key := sources.Key{Source: "east", Kind: sources.KindService, Name: "api"}
	anew := h.boat["east"].sink
	anew.Status(sources.Status{Source: "east", Kind: "test", Error: "refused"})
	assert.Len(t, sink.take(), 1)
	anew.Update(sources.Update{Key: key})
	assert.Empty(t, took, "not synced yet")
	for range 2 {
		anew.Status(sources.Status{Source: "east", Kind: "test", Synced: true})
		assert.Len(t, sink.take(), 1)
	}
	assert.Equal(t, []map[sources.Key]struct{}{{key: {}}}, took, "once")
	f.close()
}
