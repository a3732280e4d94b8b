// Package kubernetes is the source of one Kubernetes cluster: its Services with their
// EndpointSlices, live from its API or from a folder of manifests. Both ways in meet in
// one conversion and one table.
//
//	kubernetes.go  Config, Source, Run: which way in
//	access.go      kubeconfig or in-cluster files → rest.Config, read again when they change
//	contexts.go    the contexts of a kubeconfig, for a start without a configuration
//	watch.go       one session with an API server: two reflectors of client-go, their
//	               lists and watches; frozen and broken ones are found and renewed here
//	client.go      the REST client of the two kinds
//	store.go       what a reflector writes to: lists, events, bookmarks
//	manifests.go   the other way in: files that changed, taken one after the other
//	decode.go      one file, as soon as it is read → its objects, leniently
//	json.go        JSON → one API object after the other, quickly
//	yaml.go        YAML → the same as JSON
//	claims.go      which file has the say about an object → table
//	roll.go        what is kept of a file: the names of its objects, packed
//	mirror.go      Endpoints of manifests → EndpointSlices, as Kubernetes does
//	convert.go     API object → object: all that DNS needs, nothing else
//	table.go       objects → what is held of each service → Updates of what really changed
//	held.go        how the table holds services: packed, found by a few bytes each
//	guard.go       lists that suddenly lack most of what was known are doubted for a while
//	status.go      what the parts report → sources.Status
//
// The way on: resolver takes the Updates in its inbox.
package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"k8s.io/client-go/rest"

	"github.com/meshdns/meshdns/sources"
)

// Config says which cluster, and how it is read: exactly one of Kubeconfig, InCluster and
// Manifests.
type Config struct {
	// Name is the cluster's name: Key.Source and Status.Source of all that is pushed.
	Name string
	// Kubeconfig is a file, or several in the form of the KUBECONFIG variable.
	Kubeconfig string
	// Context is a context of Kubeconfig; "" is the current one at the time when the file
	// is first read, and stays that one.
	Context string
	// InCluster uses the service account of the pod that this process runs in.
	InCluster bool
	// Manifests is a folder, or a file, of Kubernetes objects as YAML or JSON.
	Manifests string
	// EquivalenceLabel is the label or annotation whose value becomes
	// sources.Service.EquivalentTo; "" reads none.
	EquivalenceLabel string
	// ShrinkGuard is how long a list that lost most of what was known is doubted; 0 means
	// DefaultShrinkGuard, less than 0 not at all. Manifests are believed at once.
	ShrinkGuard time.Duration
	Logger      *slog.Logger // nil: nothing is logged
}

// Source is a sources.Source.
type Source struct {
	cfg     Config
	timing  timing
	account string // folder of the service account
}

var _ sources.Source = (*Source)(nil)

// New makes a Source. It fails only for what can never work: a Config that names no way
// in, or several, and InCluster in a process that is in no cluster. Whatever is wrong with
// a file is said by Status and tried again.
func New(cfg Config) (*Source, error) {
	if cfg.Name == "" {
		return nil, errors.New("kubernetes source: no cluster name")
	}
	ways := 0
	for _, given := range []bool{cfg.Kubeconfig != "", cfg.InCluster, cfg.Manifests != ""} {
		if given {
			ways++
		}
	}
	if ways != 1 {
		return nil, fmt.Errorf("cluster %s: want one of kubeconfig, inCluster and manifests, got %d", cfg.Name, ways)
	}
	if cfg.InCluster {
		if _, err := loadInCluster(serviceAccountFolder); errors.Is(err, rest.ErrNotInCluster) {
			return nil, fmt.Errorf("cluster %s: %w", cfg.Name, err)
		}
	}
	if cfg.ShrinkGuard == 0 {
		cfg.ShrinkGuard = DefaultShrinkGuard
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Source{cfg: cfg, timing: defaultTiming(), account: serviceAccountFolder}, nil
}

// Run implements sources.Source. It may be called once.
func (s *Source) Run(ctx context.Context, sink sources.Sink) error {
	if s.cfg.Manifests != "" {
		return s.runManifests(ctx, sink)
	}
	st := newStatus(s.cfg.Name, "kubernetes", s.cfg.Logger, sink, kindService.String(), kindSlice.String())
	defer st.close()
	t := newTable(s.cfg.Name, s.cfg.ShrinkGuard, sink, st, s.cfg.Logger)
	defer t.close()
	st.start()
	live := &live{
		cfg:     s.cfg,
		timing:  s.timing,
		account: s.account,
		status:  st,
		table:   t,
		convert: &converter{equivalence: s.cfg.EquivalenceLabel},
	}
	return live.run(ctx)
}
