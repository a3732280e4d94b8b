// Package resolver merges what sources say into Snapshots and says, for each name, which
// endpoints answer for it and why.
//
// An update's way: a source calls Update (inbox.go, bursts coalesce while the owner is
// busy) → the owner goroutine takes the batch (owner.go) → services join their groups
// (equivalence.go), documents and locators the registered names that use them (mesh.go)
// → a copy-on-write Snapshot (snapshot.go, of trees as in tree.go) → Publisher.Publish with the list of what was
// touched; zones repacks those names and nothing else.
//
// An answer's endpoints: Snapshot.Aggregate, InCluster (select.go) and Registered
// (registered.go) put together the parts that may serve, each with its reason when it may not: role,
// mayServe and cidrs (provenance.go), age (staleness.go), readiness. A DNS backend that is a
// name of our own zones is put together from what answers for that (inside.go); footing.go
// says what a registered name stands on, and so what it changes with. Packing and
// explaining read the same selection (rows.go turns it into rows for people), so that what
// is explained is what is served. conflicts.go says how clusters differ.
//
// A first question for a lazily resolved name fans out in fetch.go.
package resolver

import (
	"context"
	"log/slog"
	"time"

	"github.com/meshdns/meshdns/names"
	"github.com/meshdns/meshdns/sources"
)

// Publisher takes each Snapshot with what it changes against the one before. Publish is
// called by the owner goroutine only, one call at a time; when it returns, queries see
// the change.
type Publisher interface {
	Publish(*Snapshot, Changes)
}

// Changes lists what a Snapshot touches. Entries are unique.
type Changes struct {
	All      bool            // everything may have changed: settings, or an age that concerns many
	Services []ServiceChange // groups with a changed member
	Mesh     []names.Name    // registered names: documents, or what they stand on
	Members  []string        // backend keys whose Members changed
}

// ServiceChange is a group that changed; a nil Group says that it is gone.
type ServiceChange struct {
	ServiceName
	Group *Group
}

// Upstreams resolves DNS locators.
type Upstreams interface {
	// Want says which locators to keep fresh; it replaces the set of the call before.
	Want(keys []sources.Key)
	// Resolve resolves a locator once for all who ask at that time and pushes the Update
	// before it returns.
	Resolve(ctx context.Context, key sources.Key) error
}

// Resolver owns the merged state. Its Sink methods, SetSettings, Snapshot and Fetch are
// safe for concurrent use.
type Resolver struct {
	in    *inbox
	owner *owner
	up    Upstreams
}

// New makes a Resolver and publishes its first, empty Snapshot before it returns.
func New(c Config) *Resolver {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	r := &Resolver{in: newInbox(), up: c.Upstreams}
	r.owner = newOwner(c, r.in)
	r.owner.publish(Changes{All: true})
	return r
}

// Update implements sources.Sink.
func (r *Resolver) Update(u sources.Update) { r.in.update(u) }

// Status implements sources.Sink. A Status with an empty Kind says that the source is
// gone.
func (r *Resolver) Status(s sources.Status) { r.in.status(s) }

// SetSettings has the owner take up new settings as one step. Data of clusters that the
// settings no longer name leave with the same step.
func (r *Resolver) SetSettings(s *Settings) {
	r.in.call(func() { r.owner.setSettings(s) })
}

// Snapshot is the latest published one.
func (r *Resolver) Snapshot() *Snapshot { return r.owner.current.Load() }

// Flush returns when everything that was pushed before the call is published.
func (r *Resolver) Flush(ctx context.Context) error {
	done := make(chan struct{})
	r.in.call(func() { close(done) })
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Run is the owner goroutine: it takes batches until ctx ends.
func (r *Resolver) Run(ctx context.Context) error {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		timer.Reset(r.owner.untilNextAge())
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
			r.owner.age()
		case <-r.in.wake:
			r.owner.apply(r.in.take())
		}
	}
}
