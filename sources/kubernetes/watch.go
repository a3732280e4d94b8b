package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
)

// timing are the times of a session. Tests shorten them.
type timing struct {
	// pageSize is how many objects a page of a list has at most: the size of kubectl's.
	pageSize int64
	// request bounds a list page, and the time until a watch is answered.
	request time.Duration
	// watch is how long a watch lasts at most before it is opened again from where it
	// ended. A server sends a bookmark before it ends one, so that a watch on which nothing
	// happens is confirmed this often.
	watch time.Duration
	// silence ends a watch on which nothing came. Frozen HTTP/2 connections are found by
	// the transport's pings after 45 s; this finds all others, and watches that a server
	// has forgotten, within 60 s of the last sign of life (FAULTS 8).
	silence time.Duration
	// gap is the least time from the beginning of a watch to that of the next.
	gap time.Duration
	// backoff is the first pause after a failure, maxBackoff the longest; the jitter adds
	// up to as much again, so that clients of a restarted server come back spread out.
	backoff, maxBackoff time.Duration
}

func defaultTiming() timing {
	return timing{
		pageSize:   500,
		request:    time.Minute,
		watch:      45 * time.Second,
		silence:    55 * time.Second,
		gap:        time.Second,
		backoff:    500 * time.Millisecond,
		maxBackoff: 15 * time.Second,
	}
}

// session is the use of one access: two reflectors with their connections. The zero value
// is a session that has ended.
type session struct {
	access  *rest.Config
	clients *clients
	feeds   [numKinds]*feed
	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup
}

// open prepares a session; nothing is asked before start.
func (l *live) open(ctx context.Context, access *rest.Config) (*session, error) {
	clients, err := newClients(access)
	if err != nil {
		return nil, err
	}
	s := &session{access: access, clients: clients}
	s.ctx, s.cancel = context.WithCancel(ctx)
	for k := range numKinds {
		s.feeds[k] = &feed{
			kind:    k,
			clients: clients,
			timing:  l.timing,
			status:  l.status,
			logger:  l.cfg.Logger,
			store:   &store{kind: k, table: l.table, convert: l.convert},
			running: &s.running,
		}
		s.feeds[k].store.replaced = s.feeds[k].replaced
	}
	return s, nil
}

func (s *session) start() {
	for _, f := range s.feeds {
		s.running.Go(func() { f.run(s.ctx) })
	}
}

// close ends the session and waits until all of it has ended.
func (s *session) close() {
	if s.cancel == nil {
		return
	}
	s.cancel()
	s.running.Wait()
	s.clients.close()
}

// feed is one kind's reflector, with what the reflector asks for its lists and watches.
type feed struct {
	kind    kind
	clients *clients
	timing  timing
	status  *status
	logger  *slog.Logger
	store   *store
	running *sync.WaitGroup // of all goroutines that work for the session

	mu    sync.Mutex
	ended bool // guarded by mu

	// Of the reflector's goroutine: when the last watch began, and how many watches in a
	// row ended before all initial events had come.
	opened     time.Time
	unfinished int
	// streaming: the last list comes, or came, by a watch that goes on.
	streaming atomic.Bool
}

// run lists and watches until ctx ends. client-go's reflector decides what to ask for
// next; this loop repeats it for ever, as Reflector.Run would, and sees its errors, which
// Run would only log.
func (f *feed) run(ctx context.Context) {
	defer f.end()
	logger := logr.FromSlogHandler(quiet{f.logger.Handler()})
	reflector := cache.NewReflectorWithOptions(&cache.ListWatch{
		ListWithContextFunc:  f.list,
		WatchFuncWithContext: f.watch,
	}, f.kind.newObject(), f.store, cache.ReflectorOptions{
		Logger:  &logger,
		Name:    f.kind.String(),
		Backoff: f.timing.backoffSteps(),
	})
	reflector.WatchListPageSize = f.timing.pageSize
	pause := f.timing.backoffSteps().DelayWithReset(clock.RealClock{}, 2*time.Minute)
	_ = pause.Until(logr.NewContext(ctx, logger), true, true, func(ctx context.Context) (bool, error) {
		err := reflector.ListAndWatchWithContext(ctx)
		if err != nil && ctx.Err() == nil {
			f.failed(err)
		}
		return false, nil
	}) // its error is that of ctx
}

// failed reports why a list or a watch failed: once a back-off step.
func (f *feed) failed(err error) {
	var request *requestError
	if errors.As(err, &request) {
		err = request // without what the reflector put around it
	}
	f.status.failed(int(f.kind), err)
}

// backoffSteps doubles the pause up to maxBackoff, with a jitter of up to the same again.
func (t *timing) backoffSteps() *wait.Backoff {
	return &wait.Backoff{
		Duration: t.backoff,
		Cap:      t.maxBackoff,
		Steps:    int(t.maxBackoff/t.backoff) + 1,
		Factor:   2,
		Jitter:   1,
	}
}

// end makes lists that begin from now on fail at once: the reflector does not wait for the
// goroutine of a list when ctx ends.
func (f *feed) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended = true
}

// begin counts a list among what the session waits for; false when the feed has ended.
func (f *feed) begin() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.ended {
		f.running.Add(1)
	}
	return !f.ended
}

// replaced is called when a whole list was taken.
func (f *feed) replaced() {
	f.unfinished = 0
	if f.streaming.Load() {
		f.status.recovered(int(f.kind)) // the watch that brought the list goes on
	}
}

// list reads a page of a list and keeps of it what the table needs, so that a list in the
// making is never more than a page of API objects. It is called by a goroutine of the
// reflector's, which the reflector does not wait for.
func (f *feed) list(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
	if !f.begin() {
		return nil, context.Canceled
	}
	defer f.running.Done()
	f.streaming.Store(false)
	if opts.ResourceVersion == "0" {
		// "0" would allow for any age, and for a list in one piece whatever its size.
		opts.ResourceVersion = ""
	}
	ctx, cancel := context.WithTimeout(ctx, f.timing.request)
	defer cancel()
	page, err := f.clients.list(ctx, f.kind, opts)
	if err != nil {
		return nil, &requestError{"list", f.kind, err}
	}
	return f.compactPage(page)
}

func (f *feed) compactPage(page runtime.Object) (runtime.Object, error) {
	from, err := meta.ListAccessor(page)
	if err != nil {
		return nil, err
	}
	out := &internalversion.List{ListMeta: metav1.ListMeta{
		ResourceVersion:    from.GetResourceVersion(),
		Continue:           from.GetContinue(),
		RemainingItemCount: from.GetRemainingItemCount(),
	}}
	out.Items = make([]runtime.Object, 0, meta.LenList(page))
	err = meta.EachListItem(page, func(item runtime.Object) error {
		out.Items = append(out.Items, f.store.compact(item))
		return nil
	})
	return out, err
}

// watch opens a watch for the reflector.
func (f *feed) watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	initial := opts.SendInitialEvents != nil && *opts.SendInitialEvents
	if !f.mind(ctx) {
		return nil, ctx.Err()
	}
	if initial && f.unfinished >= maxUnfinished {
		f.unfinished = 0
		return nil, errors.New("initial events do not come to their end") // a list in pages may
	}
	if !initial {
		opts.TimeoutSeconds = f.watchSeconds()
	}
	f.streaming.Store(initial)
	w, err := f.open(ctx, opts, initial)
	if err != nil {
		return nil, f.unopened(ctx, initial, err)
	}
	f.opened = time.Now()
	if initial {
		f.unfinished++ // until all of them are there
	} else {
		f.status.recovered(int(f.kind))
	}
	return w, nil
}

// unopened is what the reflector is told of a watch that could not be opened.
func (f *feed) unopened(ctx context.Context, initial bool, err error) error {
	if initial {
		// The reflector would repeat some of these itself, deaf to ctx while it waits. As
		// it cannot see their cause, it asks for a list, which fails in the open.
		return fmt.Errorf("watch with initial events: %v", err)
	}
	err = &requestError{"watch", f.kind, err}
	if ctx.Err() == nil && !isRefusal(err) {
		f.failed(err)
		return unanswered{err}
	}
	return err
}

// maxUnfinished is how often a list by watch may break off before a list in pages is
// tried in its place.
const maxUnfinished = 3

// mind keeps the least time between two watches: a server that accepts one and ends it at
// once is not asked in a tight loop. It returns false when ctx has ended.
func (f *feed) mind(ctx context.Context) bool {
	if pause := f.timing.gap - time.Since(f.opened); pause > 0 && !f.opened.IsZero() {
		timer := time.NewTimer(pause)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// watchSeconds is the time that a watch may last, spread so that the watches of many
// servers do not end together.
func (f *feed) watchSeconds() *int64 {
	seconds := int64(max(1, (f.timing.watch - rand.N(f.timing.watch/5+1)).Seconds()))
	return &seconds
}

// open opens a watch, with a bound on how long the answer may take.
func (f *feed) open(ctx context.Context, opts metav1.ListOptions, initial bool) (watch.Interface, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	late := time.AfterFunc(f.timing.request, func() { cancel(fmt.Errorf("no answer in %s", f.timing.request)) })
	inner, err := f.clients.watch(ctx, f.kind, opts)
	if err == nil && !late.Stop() {
		inner.Stop()
		err = ctx.Err()
	}
	if err != nil {
		late.Stop()
		cancel(nil)
		if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
			err = cause
		}
		return nil, err
	}
	s := &stream{
		inner:   inner,
		events:  make(chan watch.Event),
		stopped: make(chan struct{}),
		silence: f.timing.silence,
		broken:  func(why string) { f.renewed(initial, why) },
	}
	f.running.Go(func() {
		defer cancel(nil)
		s.run()
	})
	return s, nil
}

// renewed logs why a watch is opened again. That of the initial events lasts longer than
// others, and its server owes no sign of life so soon: its end is no news.
func (f *feed) renewed(initial bool, why string) {
	level := slog.LevelInfo
	if initial {
		level = slog.LevelDebug
	}
	f.logger.Log(context.Background(), level, "watch of the cluster is renewed",
		"cluster", f.status.base.Source, "kind", f.kind.String(), "reason", why)
}

// isRefusal says whether the server understood and refused (4xx, but for "too many
// requests"): then the reflector is to list anew. All else says nothing about the data, and
// the reflector is to go on from where it is.
func isRefusal(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	code := status.Status().Code
	return code >= 400 && code < 500 && code != 429
}

// unanswered is an error after which the reflector opens the same watch again, with its
// back-off, and lists nothing. The reflector knows only one error as such besides 429:
// that of a refused connection.
type unanswered struct{ error }

// Unwrap implements what errors.As looks for.
func (u unanswered) Unwrap() []error { return []error{syscall.ECONNREFUSED, u.error} }

// requestError says which request failed. It leaves the URL out that the HTTP client names:
// it is long, and the source's name says whose it is.
type requestError struct {
	verb string
	kind kind
	err  error
}

// Error implements error.
func (r *requestError) Error() string {
	err := r.err
	var inner *url.Error
	if errors.As(err, &inner) {
		err = inner.Err
	}
	return r.verb + " " + r.kind.String() + ": " + err.Error()
}

// Unwrap lets the reflector see what kind of error it is.
func (r *requestError) Unwrap() error { return r.err }

// stream passes a watch's events on, and ends it when it is silent or broken.
type stream struct {
	inner   watch.Interface
	events  chan watch.Event
	stopped chan struct{}
	stop    sync.Once
	silence time.Duration
	broken  func(why string)
}

// Stop implements watch.Interface.
func (s *stream) Stop() { s.stop.Do(func() { close(s.stopped) }) }

// ResultChan implements watch.Interface.
func (s *stream) ResultChan() <-chan watch.Event { return s.events }

// run passes events on until the watch ends, and returns when nothing of it is left.
func (s *stream) run() {
	defer close(s.events)
	defer func() {
		s.inner.Stop()
		for range s.inner.ResultChan() { // it is closed by the last goroutine of the watch
		}
	}()
	silence := time.NewTimer(s.silence)
	defer silence.Stop()
	for {
		select {
		case event, ok := <-s.inner.ResultChan():
			if !ok || !s.pass(event) {
				return
			}
			silence.Reset(s.silence)
		case <-silence.C:
			s.broken("nothing heard for " + s.silence.String())
			return
		case <-s.stopped:
			return
		}
	}
}

// pass hands an event on; false ends the watch. A connection that broke, or an event that
// could not be read, ends the watch as if the server had: the reflector then goes on from
// the last event, where an error would make it list anew.
func (s *stream) pass(event watch.Event) bool {
	if event.Type == watch.Error {
		if why, ours := clientError(event.Object); ours {
			s.broken(why)
			return false
		}
	}
	select {
	case s.events <- event:
		return true
	case <-s.stopped:
		return false
	}
}

// clientError says whether an error event was made by this side's decoder and does not
// come from the server.
func clientError(obj runtime.Object) (why string, ok bool) {
	status, isStatus := obj.(*metav1.Status)
	if !isStatus || status.Details == nil {
		return "", false
	}
	for _, cause := range status.Details.Causes {
		if cause.Type == "ClientWatchDecoding" {
			return cause.Message, true
		}
	}
	return "", false
}

// quiet is the log of client-go: what matters of it is reported by Status and logged once
// by this package, so that all of it is for debugging.
type quiet struct{ next slog.Handler }

// Enabled implements slog.Handler.
func (q quiet) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelDebug && q.next.Enabled(ctx, slog.LevelDebug)
}

// Handle implements slog.Handler.
func (q quiet) Handle(ctx context.Context, record slog.Record) error {
	record.Level = slog.LevelDebug
	return q.next.Handle(ctx, record)
}

// WithAttrs implements slog.Handler.
func (q quiet) WithAttrs(attrs []slog.Attr) slog.Handler { return quiet{q.next.WithAttrs(attrs)} }

// WithGroup implements slog.Handler.
func (q quiet) WithGroup(name string) slog.Handler { return quiet{q.next.WithGroup(name)} }
