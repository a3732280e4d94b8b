package kubernetes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/meshdns/meshdns/dirwatch"
	"github.com/meshdns/meshdns/document"
	"github.com/meshdns/meshdns/sources"
)

// manifests is the content of the files of a cluster. It belongs to one goroutine.
type manifests struct {
	convert *converter
	logger  *slog.Logger
	files   map[string]*manifest
	told    map[string]struct{} // what has been logged and should be once
}

// manifest is a file.
type manifest struct {
	file *dirwatch.File // that contents was read from
	contents
}

func newManifests(equivalence string, logger *slog.Logger) *manifests {
	return &manifests{
		convert: &converter{equivalence: equivalence},
		logger:  logger,
		files:   map[string]*manifest{},
		told:    map[string]struct{}{},
	}
}

// runManifests pushes what the files hold, and again after each change of them.
func (s *Source) runManifests(ctx context.Context, sink sources.Sink) error {
	st := newStatus(s.cfg.Name, "manifests", s.cfg.Logger, sink, "manifests in "+s.cfg.Manifests)
	defer st.close()
	t := newTable(s.cfg.Name, 0, sink, st, s.cfg.Logger)
	defer t.close()
	st.start()
	m := newManifests(s.cfg.EquivalenceLabel, s.cfg.Logger)
	watcher := dirwatch.New(dirwatch.Config{Paths: []string{s.cfg.Manifests}, Logger: s.cfg.Logger})
	return watcher.Run(ctx, func(snapshot dirwatch.Snapshot) {
		err := m.take(snapshot)
		st.skipped(m.skipped())
		if snapshot.Unknown(s.cfg.Manifests) == nil {
			t.replaceAll(m.lists())
			st.listed(0)
		}
		if err != nil {
			st.failed(0, err)
		} else {
			st.recovered(0)
		}
	})
}

// CheckManifests reads a folder or file of manifests as a Source would, once, and returns
// all that is wrong with it. The error is that of files that could not be read.
func CheckManifests(path string) ([]document.Problem, error) {
	snapshot, err := dirwatch.Read(path)
	m := newManifests("", slog.New(slog.DiscardHandler))
	_ = m.take(snapshot) // the same error
	var problems []document.Problem
	for _, f := range m.files {
		problems = append(problems, f.problems...)
	}
	for _, l := range m.losers() {
		problems = append(problems, document.Problem{
			File: l.file, Line: l.line, Column: 1, Severity: document.Warning,
			Message: fmt.Sprintf("%s is not used: it is also in %s:%d, which comes later", l.id, l.winner.file, l.winner.line),
		})
	}
	document.Sort(problems)
	return problems, err
}

// take reads what changed. The error joins those of files and folders that could not be
// read; what was known of them is kept.
func (m *manifests) take(snapshot dirwatch.Snapshot) error {
	var errs []error
	files := make(map[string]*manifest, len(snapshot.Files))
	for _, f := range snapshot.Files {
		old := m.files[f.Path]
		switch {
		case f.Err != nil:
			errs = append(errs, f.Err)
		case old != nil && old.file == f:
			files[f.Path] = old
		default:
			files[f.Path] = m.read(f, old)
		}
	}
	for path, old := range m.files {
		if files[path] == nil && snapshot.Unknown(path) != nil {
			files[path] = old
		}
	}
	m.files = files
	return errors.Join(errs...)
}

// read decodes a file. What is broken in it keeps what the file said before; so does all
// of a file that is suddenly empty, since a file that is written again is empty for a
// moment: to take the objects away, the file is deleted, or has an empty list.
func (m *manifests) read(f *dirwatch.File, old *manifest) *manifest {
	if old != nil && len(old.items) > 0 && len(bytes.TrimSpace(f.Content)) == 0 {
		return &manifest{file: f, contents: old.contents}
	}
	now := &manifest{file: f, contents: decodeFile(f.Path, f.Content, m.convert)}
	for _, p := range now.problems {
		if p.Severity == document.Error {
			m.logger.Warn("manifest is not usable as it is", "problem", p.String())
		}
	}
	if old != nil {
		now.items = append(now.items, kept(old, now)...)
	}
	return now
}

// kept are the items of old that now is broken about.
func kept(old, now *manifest) (items []item) {
	good := make(map[itemID]struct{}, len(now.items))
	for i := range now.items {
		good[now.items[i].id] = struct{}{}
	}
	for _, i := range old.items {
		if _, isGood := good[i.id]; !isGood && (!now.whole || slices.Contains(now.broken, i.id)) {
			items = append(items, i)
		}
	}
	return items
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

// loser is an item that another one of the same name comes after.
type loser struct {
	item
	winner item
}

// merge is every object once: the one in the file whose path comes last, or the last one
// in a file.
func (m *manifests) merge() (items map[itemID]item, losers []loser) {
	items = map[itemID]item{}
	for _, path := range m.paths() {
		for _, i := range m.files[path].items {
			if old, had := items[i.id]; had {
				losers = append(losers, loser{item: old, winner: i})
			}
			items[i.id] = i
		}
	}
	return items, losers
}

func (m *manifests) losers() []loser {
	_, losers := m.merge()
	return losers
}

// lists are the objects of all files, with Endpoints mirrored.
func (m *manifests) lists() (lists [numKinds][]*object) {
	items, losers := m.merge()
	for _, l := range losers {
		m.tell(fmt.Sprintf("%s: %s:%d, not %s:%d", l.id, l.winner.file, l.winner.line, l.file, l.line),
			"object is in the manifests twice, the later one counts")
	}
	mirroredAlready := map[key]bool{}
	for _, i := range items {
		if i.object == nil {
			continue
		}
		lists[i.object.kind] = append(lists[i.object.kind], i.object)
		if i.mirrored {
			mirroredAlready[key{i.id.namespace, i.object.owner}] = true
		}
	}
	for _, i := range items {
		if i.endpoints != nil && !mirroredAlready[i.id.key] && m.isMirrored(i, items) {
			for _, slice := range mirror(i.endpoints) {
				lists[kindSlice] = append(lists[kindSlice], m.convert.convert(slice))
			}
		}
	}
	slices.SortFunc(lists[kindSlice], func(a, b *object) int { return strings.Compare(a.key.name, b.key.name) })
	return lists
}

// isMirrored says whether Kubernetes would mirror the Endpoints of i.
func (m *manifests) isMirrored(i item, items map[itemID]item) bool {
	service, exists := items[itemID{"Service", i.id.key}]
	if exists && service.selects && len(i.endpoints.Subsets) > 0 {
		m.tell(fmt.Sprintf("%s: %s:%d", i.id, i.file, i.line),
			"Endpoints of a service with a selector are not read, only its EndpointSlices")
	}
	return exists && !service.selects && mirrors(i.endpoints)
}

// tell logs something about what once.
func (m *manifests) tell(what, message string) {
	if _, told := m.told[message+what]; !told {
		m.told[message+what] = struct{}{}
		m.logger.Warn(message, "object", what)
	}
}
