package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/meshdns/meshdns/config"
	"github.com/meshdns/meshdns/dirwatch"
)

// reloader takes up changes of the configuration: whole, or not at all. It is safe for
// concurrent use; changes are taken up one after the other.
type reloader struct {
	loader  *loader
	apply   func(context.Context, *loaded) error
	metrics reloadMetrics
	log     *slog.Logger
	now     func() time.Time

	mu      sync.Mutex
	started *config.Config // what the sockets were opened by
	content []byte         // of the file, as it was last looked at
	problem string         // why it was last refused, "" when it was taken
}

// reloadMetrics counts what became of changes.
type reloadMetrics interface {
	Started(now time.Time)
	Taken(now time.Time)
	Refused()
}

// watch follows the configuration file until ctx ends.
func (r *reloader) watch(ctx context.Context) error {
	if r.loader.path == "" {
		return nil
	}
	watcher := dirwatch.New(dirwatch.Config{Paths: []string{r.loader.path}, Logger: r.log})
	return watcher.Run(ctx, func(snapshot dirwatch.Snapshot) { r.seen(ctx, snapshot) })
}

// seen takes up the file's content if it is news.
func (r *reloader) seen(ctx context.Context, snapshot dirwatch.Snapshot) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, file := range snapshot.Files {
		if file.Err != nil {
			r.refuseLocked(fmt.Errorf("reading the configuration: %w", file.Err))
			return
		}
		if bytes.Equal(r.content, file.Content) && r.problem == "" {
			return
		}
		r.content = file.Content
		r.takeLocked(ctx, r.parse)
	}
}

// parse reads r.content. A file that is suddenly empty is one that is being written, or
// an accident: taking it up would end every name.
func (r *reloader) parse() (*loaded, error) {
	if isBlank(r.content) {
		return nil, errBlank
	}
	return r.loader.parse(r.content)
}

var errBlank = errors.New("the configuration file is empty")

func isBlank(content []byte) bool { return len(bytes.TrimSpace(content)) == 0 }

// load reads everything again, with the same exception.
func (r *reloader) load() (*loaded, error) {
	next, err := r.loader.load()
	if err == nil && r.loader.path != "" && isBlank(next.content) {
		return nil, errBlank
	}
	return next, err
}

// reread reads everything again, whether it looks changed or not: SIGHUP.
func (r *reloader) reread(ctx context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log.Info("reading the configuration again")
	r.problem = "" // who asks is told, if it is what was told before
	r.takeLocked(ctx, r.load)
}

func (r *reloader) takeLocked(ctx context.Context, read func() (*loaded, error)) {
	next, err := read()
	if err == nil {
		warnFixed(r.log, r.started, next.Config)
		next.Listen = r.started.Listen
		err = r.apply(ctx, next)
	}
	if err != nil {
		r.refuseLocked(err)
		return
	}
	logProblems(r.log, next.warnings)
	r.content, r.problem = next.content, ""
	r.metrics.Taken(r.now())
	r.log.Info("configuration taken up", "clusters", len(next.Clusters))
}

// refuseLocked says once what is wrong; what was taken up before stays.
func (r *reloader) refuseLocked(err error) {
	if err.Error() == r.problem {
		return
	}
	r.problem = err.Error()
	r.metrics.Refused()
	r.log.Error("changed configuration refused, the one before stays", "error", err)
	var bad *badConfig
	if errors.As(err, &bad) {
		logProblems(r.log, bad.problems)
	}
}

// warnFixed says which changes need a restart.
func warnFixed(log *slog.Logger, before, after *config.Config) {
	warn := func(field string, changed bool) {
		if changed {
			log.Warn("a changed field takes effect at the next start only", "field", field)
		}
	}
	warn("listen.dns", !slices.Equal(before.Listen.DNS, after.Listen.DNS))
	warn("listen.admin", before.Listen.Admin != after.Listen.Admin)
	warn("listen.workers", before.Listen.Workers != after.Listen.Workers)
	warn("listen.batch", before.Listen.Batch != after.Listen.Batch)
	warn("server.tcp", !reflect.DeepEqual(before.Server.TCP, after.Server.TCP))
	warn("staleness.keepShared (of DNS backends)", before.Staleness.KeepShared != after.Staleness.KeepShared)
}
