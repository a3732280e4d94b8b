package cli

import (
	"context"
	"log/slog"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/meshdns/meshdns/admin"
)

// readiness is what /readyz says: what the sources say, until the end begins.
type readiness struct {
	sources  func() (waiting []string, ready bool)
	stopping atomic.Bool
}

// State implements admin.Readiness.
func (r *readiness) State() admin.State {
	if r.stopping.Load() {
		return admin.State{Stopping: true}
	}
	waiting, ready := r.sources()
	return admin.State{Ready: ready, Waiting: waiting}
}

// untilTold returns the signal that ends the process, or nil when ctx ends; each SIGHUP
// calls reread.
func untilTold(ctx context.Context, signals <-chan os.Signal, reread func()) os.Signal {
	for {
		select {
		case <-ctx.Done():
			return nil
		case signal := <-signals:
			if signal != syscall.SIGHUP {
				return signal
			}
			reread()
		}
	}
}

// drain says "not ready" and keeps answering for a while, so that whoever sends questions
// here has seen it before the sockets close (CASES C115). Another signal, or the end of
// ctx, cuts it short.
func drain(ctx context.Context, r *readiness, signals <-chan os.Signal, d time.Duration, log *slog.Logger) {
	r.stopping.Store(true)
	if d <= 0 {
		return
	}
	log.Info("stopping: no longer ready, still answering; another signal ends it at once", "drain", d.String())
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		case signal := <-signals:
			if signal != syscall.SIGHUP {
				return
			}
		}
	}
}
