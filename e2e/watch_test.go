package e2e

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"

	"github.com/meshdns/meshdns/e2e/harness"
)

// watcher asks the same questions over and over beside a test and stops at the first
// answer that differs.
type watcher struct {
	quit chan struct{}
	done chan struct{} // closed when it has stopped
	seen atomic.Int64  // queries answered as wanted
	err  error         // read after done only
}

// watched is a question with the only answer that it may have.
type watched struct {
	question, want string
}

// watchAnswers watches one question.
func watchAnswers(t *testing.T, addr, question, want string) *watcher {
	return watchAll(t, addr, watched{question, want})
}

// watchAll watches questions in turn.
func watchAll(t *testing.T, addr string, all ...watched) *watcher {
	t.Helper()
	w := &watcher{quit: make(chan struct{}), done: make(chan struct{})}
	var pollers []*harness.Poller
	for _, one := range all {
		poller, err := harness.NewPoller(addr, parse(t, one.question))
		require.NoError(t, err)
		pollers = append(pollers, poller)
	}
	go w.run(pollers, all)
	t.Cleanup(w.end)
	return w
}

func (w *watcher) run(pollers []*harness.Poller, all []watched) {
	defer close(w.done)
	var reply dns.Msg
	for {
		for i, poller := range pollers {
			select {
			case <-w.quit:
				return
			default:
			}
			if w.err = poller.Ask(&reply); w.err != nil {
				return
			}
			if got := harness.Summary(&reply); got != canonical(all[i].want) {
				w.err = fmt.Errorf("query %d, %s\n got: %s\nwant: %s", w.seen.Load(), all[i].question, got, canonical(all[i].want))
				return
			}
			w.seen.Add(1)
		}
	}
}

// end stops the watcher; a second call does nothing.
func (w *watcher) end() {
	select {
	case <-w.quit:
	default:
		close(w.quit)
	}
	<-w.done
}

// reached is nil when n queries have been answered as wanted.
func (w *watcher) reached(n int64) error {
	select {
	case <-w.done:
		return harness.Final(w.err)
	default:
	}
	if seen := w.seen.Load(); seen < n {
		return fmt.Errorf("%d queries of %d", seen, n)
	}
	return nil
}

// stop ends the watching and fails the test when an answer differed; it gives the number
// of answers seen.
func (w *watcher) stop(t *testing.T) int64 {
	t.Helper()
	w.end()
	require.NoError(t, w.err)
	return w.seen.Load()
}
