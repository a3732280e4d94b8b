// Package sources is the contract between what knows endpoints and what serves them.
//
// A source (one folder below this one for each backend) pushes values into a Sink:
// an Update carries the full current value of one key, never a delta; a Status says
// how the source itself is doing. Nothing here has behaviour that only one process
// could understand, so that Updates can travel between servers later.
//
//	sources.go  Source, Sink, Key, Update
//	service.go  Service: a Kubernetes Service with its EndpointSlices
//	slice.go    Slice, Endpoint, Ports: what both kinds of values hold
//	pack.go     the bytes that they are
//	members.go  Members: what a locator (DNS, cloud, Consul) stands for at the moment
//	status.go   Status
//
// The way on: resolver takes Updates in its inbox (resolver/inbox.go).
package sources

import "context"

// Kind says what a Key names, and so the type of the Update's Value.
type Kind uint8

const (
	// KindService is a Kubernetes Service: Namespace and Name; Value is a Service.
	KindService Kind = iota + 1
	// KindBackend is a locator of a backend that resolves it: Name is the locator in
	// canonical form; Value is *Members.
	KindBackend
	// KindDocument is a registry document: Namespace is where it stands (a file's path,
	// a cluster's namespace), Name its DNS name; Value is *registry.MeshService.
	KindDocument
)

// Key names one value of one source.
type Key struct {
	Source    string // Status.Source of the source that it came from
	Kind      Kind
	Namespace string
	Name      string
}

// Value is what an Update carries. The implementations are Service, *Members and
// *registry.MeshService. All are immutable once pushed: a source that changes one makes
// another.
type Value interface {
	// ValueKind is the Kind of key that the value belongs to.
	ValueKind() Kind
}

// Update is the full current value of one key; a nil Value says that the key is gone.
type Update struct {
	Key   Key
	Value Value
}

// Sink takes what sources say. Both methods are safe for concurrent use, return at once
// and keep the order of one caller: a Status that says "synced" takes effect after all
// Updates pushed before it.
type Sink interface {
	Update(Update)
	Status(Status)
}

// Source is one backend at work. Run pushes until ctx ends and then returns nil, having
// ended all that it started. It returns an error only for what can never work (a
// programming error, a configuration that validation should have refused); whatever a
// backend does is said by Status and tried again.
type Source interface {
	Run(ctx context.Context, sink Sink) error
}
