package cli

import (
	"context"
	"log/slog"
	"sync"

	"github.com/meshdns/meshdns/sources"
)

// fleet runs the sources that the configuration asks for. It belongs to one goroutine.
type fleet struct {
	sink    sources.Sink
	log     *slog.Logger
	running map[string]*vessel
	broken  map[string]bool // those that said that they cannot be made
	changed map[string]bool // those that were stopped to be started anew
	gone    []string        // those that were stopped for good and are not withdrawn yet
	// takeOver, when set, is called once a source that was started anew is synced, with
	// all keys that it has said since: what it said before and does not say now is to be
	// withdrawn. Until then the old data stay.
	takeOver func(source string, seen map[sources.Key]struct{})
}

// plan is a source that should run.
type plan struct {
	name, kind string // as in sources.Status
	// identity is all of the configuration that the source depends on: a source whose
	// identity changes is started anew.
	identity string
	make     func() (sources.Source, error)
}

// vessel is a source that runs.
type vessel struct {
	plan
	stop func() // returns when the source's Run has
}

func newFleet(sink sources.Sink, log *slog.Logger) *fleet {
	return &fleet{sink: sink, log: log, running: map[string]*vessel{}, broken: map[string]bool{}, changed: map[string]bool{}}
}

// stopOthers ends the sources that are not in plans as they run now. It returns when they
// have ended: nothing comes from them later. What they said stays until withdraw.
func (f *fleet) stopOthers(plans []plan) {
	keep := map[string]string{}
	for _, p := range plans {
		keep[p.name] = p.identity
	}
	var ending sync.WaitGroup
	for name, v := range f.running {
		identity, planned := keep[name]
		if planned && identity == v.identity {
			continue
		}
		delete(f.running, name)
		f.changed[name] = planned
		if !planned {
			f.gone = append(f.gone, name)
		}
		ending.Go(func() {
			v.stop()
			f.log.Info("source stopped", "source", v.name, "kind", v.kind, "again", planned)
		})
	}
	ending.Wait()
}

// withdraw takes back what sources said that are not in plans at all any more (CASES C136),
// and the statuses of those that could not be made. It comes after the settings that no
// longer have them: until then their names would be unknown, and then be gone.
func (f *fleet) withdraw() {
	for name := range f.broken {
		f.gone = append(f.gone, name)
	}
	for _, name := range f.gone {
		f.sink.Status(sources.Status{Source: name}) // no Kind: gone
	}
	f.gone = nil
	clear(f.broken)
}

// start starts the sources of plans that don't run yet; they run until stopOthers or
// close, whatever becomes of ctx. One that cannot be made says so
// as its status, and is tried again at the next start.
func (f *fleet) start(ctx context.Context, plans []plan) {
	for _, p := range plans {
		if _, ok := f.running[p.name]; ok {
			continue
		}
		source, err := p.make()
		if err != nil {
			f.broken[p.name] = true
			f.failed(p, err)
			continue
		}
		f.running[p.name] = f.launch(ctx, p, source)
	}
}

func (f *fleet) launch(ctx context.Context, p plan, source sources.Source) *vessel {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx)) // ended by stop alone
	sink := f.sinkOf(p.name)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := source.Run(ctx, sink); err != nil {
			f.failed(p, err)
		}
	}()
	return &vessel{plan: p, stop: func() { cancel(); <-done }}
}

// sinkOf is the sink of a source that starts now.
func (f *fleet) sinkOf(name string) sources.Sink {
	again := f.changed[name]
	delete(f.changed, name)
	if !again || f.takeOver == nil {
		return f.sink
	}
	return &successor{Sink: f.sink, source: name, seen: map[sources.Key]struct{}{}, takeOver: f.takeOver}
}

// successor is the sink of a source that was started anew: it remembers what the source
// says until its first whole list is there.
type successor struct {
	sources.Sink
	source   string
	takeOver func(source string, seen map[sources.Key]struct{})

	mu   sync.Mutex
	seen map[sources.Key]struct{} // nil once taken over
}

// Update implements sources.Sink.
func (s *successor) Update(u sources.Update) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen != nil {
		s.seen[u.Key] = struct{}{}
	}
	s.Sink.Update(u)
}

// Status implements sources.Sink.
func (s *successor) Status(status sources.Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen != nil && status.Synced {
		s.takeOver(s.source, s.seen)
		s.seen = nil
	}
	s.Sink.Status(status)
}

func (f *fleet) failed(p plan, err error) {
	f.log.Error("source cannot work", "source", p.name, "kind", p.kind, "error", err)
	f.sink.Status(sources.Status{Source: p.name, Kind: p.kind, Error: err.Error()})
}

// close ends all sources without withdrawing what they said: the process is on its way
// out, and its last answers are as good as those before.
func (f *fleet) close() {
	var ending sync.WaitGroup
	for _, v := range f.running {
		ending.Go(v.stop)
	}
	ending.Wait()
	clear(f.running)
}
