package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/meshdns/meshdns/dirwatch"
	"github.com/meshdns/meshdns/document"
	"github.com/meshdns/meshdns/sources"
)

// manifests is the content of the files of a cluster. It belongs to one goroutine.
type manifests struct {
	logger *slog.Logger
	table  *table
	files  map[string]*manifest // by path
	claims *claims
	told   map[string]struct{} // what has been logged and should be once
}

// manifest is what is kept of a file whose objects are in the table.
type manifest struct {
	file     *dirwatch.File // that it was read from
	roll     roll           // the names of its objects
	again    []repeat
	problems []document.Problem
}

func newManifests(t *table, logger *slog.Logger) *manifests {
	m := &manifests{logger: logger, table: t, files: map[string]*manifest{}, told: map[string]struct{}{}}
	m.claims = newClaims(t, m.files, m.tell)
	return m
}

// decoder is the dirwatch.Config.Decode of manifests: it makes *contents.
func decoder(equivalence string) func(path string, data []byte) any {
	c := &converter{equivalence: equivalence}
	return func(path string, data []byte) any { return decodeFile(path, data, c) }
}

// runManifests pushes what the files hold, and again after each change of them.
func (s *Source) runManifests(ctx context.Context, sink sources.Sink) error {
	st := newStatus(s.cfg.Name, "manifests", s.cfg.Logger, sink, "manifests in "+s.cfg.Manifests)
	defer st.close()
	t := newTable(s.cfg.Name, 0, sink, st, s.cfg.Logger)
	defer t.close()
	st.start()
	m := newManifests(t, s.cfg.Logger)
	watcher := dirwatch.New(dirwatch.Config{
		Paths: []string{s.cfg.Manifests}, Logger: s.cfg.Logger, Decode: decoder(s.cfg.EquivalenceLabel),
	})
	return watcher.Run(ctx, func(snapshot dirwatch.Snapshot) {
		whole := snapshot.Unknown(s.cfg.Manifests) == nil
		err := m.take(snapshot, whole)
		st.skipped(m.skipped())
		if whole {
			st.listed(0)
		}
		if err != nil {
			st.failed(0, err)
		} else {
			st.recovered(0)
		}
	})
}

// nowhere is a Sink of what is only checked.
type nowhere struct{}

func (nowhere) Update(sources.Update) {}
func (nowhere) Status(sources.Status) {}

// CheckManifests reads a folder or file of manifests as a Source would, once, and returns
// all that is wrong with it. The error is that of files that could not be read.
func CheckManifests(path string) ([]document.Problem, error) {
	logger := slog.New(slog.DiscardHandler)
	st := newStatus("", "manifests", logger, nowhere{}, "manifests in "+path)
	defer st.close()
	t := newTable("", 0, nowhere{}, st, logger)
	defer t.close()
	snapshot, err := dirwatch.ReadDecoded(decoder(""), path)
	m := newManifests(t, logger)
	_ = m.take(snapshot, true) // the same error
	repeats := m.claims.repeats()
	var problems []document.Problem
	for _, f := range m.files {
		problems = append(problems, f.problems...)
		repeats = append(repeats, f.again...)
	}
	for _, r := range repeats {
		problems = append(problems, document.Problem{
			File: r.place.file, Line: r.place.line, Column: 1, Severity: document.Warning,
			Message: fmt.Sprintf("%s is not used: it is also in %s, which comes later", r.id, r.wins),
		})
	}
	document.Sort(problems)
	return problems, err
}

// take brings what changed into the table, as one step; whole says that nothing else is
// to come before the cluster is known. The error joins those of files and folders that
// could not be read; what was known of them is kept.
func (m *manifests) take(snapshot dirwatch.Snapshot, whole bool) error {
	var errs []error
	there := make(map[string]struct{}, len(snapshot.Files))
	m.table.change(whole, func() {
		defer m.claims.finish()
		for _, f := range snapshot.Files {
			if f.Err != nil {
				errs = append(errs, f.Err)
				continue
			}
			there[f.Path] = struct{}{}
			if old := m.files[f.Path]; old == nil || old.file != f {
				m.read(f, old)
			}
		}
		for _, path := range m.paths() {
			if _, is := there[path]; !is && snapshot.Unknown(path) == nil {
				m.claims.replace(path, m.files[path].roll, nil, nil)
				delete(m.files, path)
			}
		}
	})
	return errors.Join(errs...)
}

// read takes what a file holds. What is broken in it keeps what the file said before; so
// does all of a file that is suddenly empty, since a file that is written again is empty
// for a moment: to take the objects away, the file is deleted, or has an empty list.
func (m *manifests) read(f *dirwatch.File, old *manifest) {
	in := f.Decoded.(*contents)
	if old == nil {
		old = &manifest{}
	}
	if in.blank && old.roll != "" {
		now := *old
		now.file = f
		m.files[f.Path] = &now
		return
	}
	m.report(in)
	roll, kept := in.roll(old.roll)
	m.claims.replace(f.Path, old.roll, in.items, kept)
	m.files[f.Path] = &manifest{file: f, roll: roll, again: in.again, problems: in.problems}
	in.items = nil // the table has them
}

// report logs what is wrong in a file.
func (m *manifests) report(in *contents) {
	for _, p := range in.problems {
		if p.Severity == document.Error {
			m.logger.Warn("manifest is not usable as it is", "problem", p.String())
		}
	}
	for _, r := range in.again {
		m.tell(r.String(), "object is in the manifests twice, the later one counts")
	}
}

// roll is the roll of a file that held what old names. kept are objects of old that the
// file is broken about now, which are part of it.
func (in *contents) roll(old roll) (now roll, kept map[itemID]struct{}) {
	var w rollWriter
	good := map[itemID]struct{}{}
	for i := range in.items {
		id := in.items[i].id()
		w.add(id, in.items[i].line)
		if old != "" {
			good[id] = struct{}{}
		}
	}
	kept = map[itemID]struct{}{}
	old.each(func(id itemID, line int) {
		if _, isGood := good[id]; !isGood && (!in.whole || slices.Contains(in.broken, id)) {
			w.add(id, line)
			kept[id] = struct{}{}
		}
	})
	return w.roll(), kept
}

// skipped is how many objects are left out, and why one of them.
func (m *manifests) skipped() (count int, latest string) {
	for _, path := range m.paths() {
		for _, p := range m.files[path].problems {
			if p.Severity == document.Error {
				count++
				latest = p.String()
			}
		}
	}
	return count, latest
}

func (m *manifests) paths() []string {
	paths := make([]string, 0, len(m.files))
	for path := range m.files {
		paths = append(paths, path)
	}
	slices.Sort(paths)
	return paths
}

// tell logs something about what once.
func (m *manifests) tell(what, message string) {
	if _, told := m.told[message+what]; !told {
		m.told[message+what] = struct{}{}
		m.logger.Warn(message, "object", what)
	}
}
