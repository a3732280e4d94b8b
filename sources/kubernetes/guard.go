package kubernetes

import (
	"fmt"
	"time"
)

// DefaultShrinkGuard is how long a list that lost most of what was known is doubted: longer
// than an API server with an empty or half-filled cache takes to fill it.
const DefaultShrinkGuard = time.Minute

// doubt is what the last lists of a kind no longer had and is not believed to be gone yet
// (FAULTS 6). Additions and changes of such a list count at once, and so do removals that
// are named: only what would have to be concluded from silence waits.
type doubt struct {
	lost  map[key]struct{}
	until time.Time
	timer *time.Timer
}

func (d *doubt) stop() {
	if d.timer != nil {
		d.timer.Stop()
	}
	*d = doubt{}
}

// implausible says whether a list that lacks lost of held objects, and has listed ones, is
// to be doubted: it is empty, or lacks more than half and more than 10.
func implausible(lost, held, listed int) bool {
	return lost > 0 && (listed == 0 || lost > 10 && 2*lost > held)
}

// loseLocked takes what a whole list lacks of the held objects: at once without a guard,
// else after the guard's time. A doubt that is there already keeps its end.
func (t *table) loseLocked(k kind, lost []key, held int, guard time.Duration) {
	d := &t.kinds[k].doubt
	if guard <= 0 {
		for _, id := range lost {
			t.removeLocked(k, id)
		}
		t.endDoubtLocked(k)
		return
	}
	d.lost = make(map[key]struct{}, len(lost))
	for _, id := range lost {
		d.lost[id] = struct{}{}
	}
	if d.timer == nil {
		d.until = time.Now().Add(guard)
		d.timer = time.AfterFunc(guard, func() { t.believeAll(k) })
		t.logger.Warn("a list lacks most of what was known, which is kept for now", "cluster", t.source,
			"kind", k.String(), "lacking", len(lost), "known", held, "until", d.until)
	}
	t.status.held(int(k), fmt.Sprintf("list of %s lacks %d of %d, which are kept until %s",
		k, len(lost), held, d.until.UTC().Format(time.RFC3339)))
}

// believeLocked ends the doubt about one object: it is there, or it is known to be gone.
func (t *table) believeLocked(k kind, id key) {
	d := &t.kinds[k].doubt
	if len(d.lost) == 0 {
		return
	}
	delete(d.lost, id)
	if len(d.lost) == 0 {
		t.endDoubtLocked(k)
	}
}

// believeAll takes away what is doubted: the guard's time is over.
func (t *table) believeAll(k kind) {
	t.mu.Lock()
	defer t.mu.Unlock()
	d := &t.kinds[k].doubt
	if d.timer == nil || time.Now().Before(d.until) { // ended, or begun anew, meanwhile
		return
	}
	t.logger.Warn("what a list lacked is believed to be gone", "cluster", t.source, "kind", k.String(), "gone", len(d.lost))
	for id := range d.lost {
		t.removeLocked(k, id)
	}
	t.endDoubtLocked(k)
	t.flushLocked()
}

func (t *table) endDoubtLocked(k kind) {
	if d := &t.kinds[k].doubt; d.timer != nil {
		d.stop()
		t.status.held(int(k), "")
	}
}
