package kubernetes

import (
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/meshdns/meshdns/sources"
)

// statusInterval is how often a Status is pushed at most when nothing but the time of the
// last success has changed.
const statusInterval = time.Second

// status puts together what the parts of a source report, and pushes it when it changes.
// It is safe for concurrent use; the Sink gets the Statuses in order.
type status struct {
	sink   sources.Sink
	logger *slog.Logger

	mu       sync.Mutex
	base     sources.Status // but for Error
	config   string         // why the access to the cluster cannot be read, "" when it can
	parts    []part
	pushed   sources.Status
	pushedAt time.Time
	timer    *time.Timer // of a push that waits for its time; nil when none does
	closed   bool
}

// part is one thing that has to be read whole before the source is synced.
type part struct {
	name   string
	listed bool
	err    string // why it is not up to date, "" when it is
	held   string // what a relist lost and is not believed yet, "" for nothing
}

func newStatus(source, kind string, logger *slog.Logger, sink sources.Sink, parts ...string) *status {
	s := &status{sink: sink, logger: logger, base: sources.Status{Source: source, Kind: kind}}
	for _, name := range parts {
		s.parts = append(s.parts, part{name: name})
	}
	return s
}

// start pushes the first Status.
func (s *status) start() { s.change(func() {}) }

// close ends the timer; nothing is pushed any more.
func (s *status) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.timer != nil {
		s.timer.Stop()
	}
}

// alive notes a sign of life.
func (s *status) alive() {
	s.change(func() { s.base.LastSuccess = time.Now() })
}

// listed notes that the whole part has been pushed.
func (s *status) listed(part int) {
	s.change(func() {
		s.base.LastSuccess = time.Now()
		s.parts[part].listed = true
		s.base.Synced = s.base.Synced || s.allListed()
	})
}

// failed notes and logs that reading a part failed; err says what was tried.
func (s *status) failed(part int, err error) {
	s.logger.Warn("cluster cannot be read, data are kept", "cluster", s.base.Source, "what", s.parts[part].name, "error", err)
	s.change(func() { s.parts[part].err = err.Error() })
}

// recovered notes that a part is up to date again.
func (s *status) recovered(part int) {
	s.change(func() {
		s.base.LastSuccess = time.Now()
		if s.parts[part].err != "" {
			s.logger.Info("cluster can be read again", "cluster", s.base.Source, "what", s.parts[part].name)
			s.parts[part].err = ""
		}
	})
}

// held notes that a part's losses are not believed yet; "" ends that.
func (s *status) held(part int, text string) {
	s.change(func() { s.parts[part].held = text })
}

// configured notes whether the access to the cluster can be read.
func (s *status) configured(err error) {
	if err != nil {
		s.logger.Warn("access to the cluster cannot be read", "cluster", s.base.Source, "error", err)
	}
	s.change(func() {
		s.config = ""
		if err != nil {
			s.config = err.Error()
		}
	})
}

// skipped notes how many objects are left out; latest, unless "", says why the last one.
func (s *status) skipped(count int, latest string) {
	s.change(func() {
		s.base.Skipped = count
		if latest != "" {
			s.base.LastSkip = latest
		}
	})
}

// change makes a change and pushes the outcome, at once unless only LastSuccess moved.
func (s *status) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	if s.closed {
		return
	}
	now := s.currentLocked()
	same := s.pushed
	same.LastSuccess = now.LastSuccess
	wait := statusInterval - time.Since(s.pushedAt)
	switch {
	case same != now || s.pushedAt.IsZero() || wait <= 0 && s.pushed != now:
		s.pushLocked(now)
	case s.pushed != now && s.timer == nil:
		s.timer = time.AfterFunc(wait, s.late)
	}
}

// late pushes what has waited.
func (s *status) late() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timer = nil
	if now := s.currentLocked(); !s.closed && now != s.pushed {
		s.pushLocked(now)
	}
}

func (s *status) pushLocked(now sources.Status) {
	s.pushed, s.pushedAt = now, time.Now()
	if s.timer != nil {
		s.timer.Stop()
		s.timer = nil
	}
	s.sink.Status(now)
}

func (s *status) currentLocked() sources.Status {
	now := s.base
	now.Error = s.errorLocked()
	return now
}

// errorLocked is why the source is not up to date.
func (s *status) errorLocked() string {
	var texts []string
	if s.config != "" {
		texts = append(texts, s.config)
	}
	for _, p := range s.parts {
		switch {
		case !p.listed && p.err == "":
			texts = append(texts, "waiting for the first list of "+p.name)
		case !p.listed:
			texts = append(texts, "waiting for the first list of "+p.name+": "+p.err)
		case p.err != "":
			texts = append(texts, p.err)
		}
		if p.held != "" {
			texts = append(texts, p.held)
		}
	}
	return strings.Join(texts, "; ")
}

func (s *status) allListed() bool {
	for _, p := range s.parts {
		if !p.listed {
			return false
		}
	}
	return true
}
