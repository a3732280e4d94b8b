package files

import (
	"cmp"
	"slices"

	"github.com/meshdns/meshdns/document"
	"github.com/meshdns/meshdns/registry"
	"github.com/meshdns/meshdns/sources"
)

// maxLines is how many problems one change may log: the rest is in the count, and
// `meshdns check` prints all.
const maxLines = 20

// pushLocked sends the sink what differs from what it has, then how the source is doing.
func (s *Source) pushLocked() {
	wanted := map[sources.Key]*registry.MeshService{}
	for _, f := range s.files {
		for key, doc := range f.services {
			wanted[key] = doc
		}
	}
	now := settle(wanted, s.pushed, s.opts)
	for _, f := range s.files {
		for key, doc := range f.refused {
			now.refused[key] = doc
		}
	}
	now.addHarmless(s.pushed, s.opts)
	for _, update := range difference(s.pushed, now.services) {
		s.sink.Update(update)
	}
	s.pushed = now.services
	s.reportLocked(now)
}

// difference are the Updates that turn before into after, ordered by key.
func difference(before, after map[sources.Key]*registry.MeshService) []sources.Update {
	var updates []sources.Update
	for key, doc := range after {
		if before[key] != doc {
			updates = append(updates, sources.Update{Key: key, Value: doc})
		}
	}
	for key := range before {
		if _, ok := after[key]; !ok {
			updates = append(updates, sources.Update{Key: key})
		}
	}
	slices.SortFunc(updates, func(a, b sources.Update) int {
		return cmp.Or(cmp.Compare(a.Key.Namespace, b.Key.Namespace), cmp.Compare(a.Key.Name, b.Key.Name))
	})
	return updates
}

// reportLocked sends the Status and logs the problems that are new.
func (s *Source) reportLocked(now settled) {
	problems, leftOut := slices.Clone(now.problems), now.leftOut
	for _, f := range s.files {
		problems = append(problems, f.problems...)
		leftOut += f.leftOut
	}
	document.Sort(problems)
	s.logLocked(problems)
	s.logUnnamedLocked()

	s.status.Skipped = leftOut
	s.status.Error = ""
	for _, f := range s.snapshot.Files {
		if f.Folder && f.Err != nil {
			s.status.Error = f.Err.Error()
			break
		}
	}
	if s.status.Error == "" {
		s.status.Synced = true
		s.status.LastSuccess = s.now()
	}
	s.sink.Status(s.status)
}

// logUnnamedLocked says of which files nobody knows what they register: unlike the name of
// a bad document that can be read, a name of theirs that was not served before is
// answered as absent.
func (s *Source) logUnnamedLocked() {
	unnamed := map[string]bool{}
	for path, f := range s.files {
		if !f.unnamed {
			continue
		}
		unnamed[path] = true
		if !s.unnamed[path] {
			s.logger.Error("registry file with a document whose name cannot be read: unless it was served before, the name is answered as absent",
				"file", path, "served", len(f.services))
		}
	}
	s.unnamed = unnamed
}

// logLocked logs the problems that were not there before, and puts the first error of
// those into the Status, else the first of all. A problem that only moved to another line
// is not new.
func (s *Source) logLocked(problems []document.Problem) {
	reported := map[string]int{}
	lines, first, firstNew := 0, "", ""
	for _, p := range problems {
		key := document.Problem{File: p.File, Field: p.Field, Message: p.Message}.String()
		reported[key]++
		isNew := reported[key] > s.reported[key]
		if p.Severity == document.Error {
			first = cmp.Or(first, p.String())
		}
		if !isNew {
			continue
		}
		if p.Severity == document.Error {
			firstNew = cmp.Or(firstNew, p.String())
		}
		if lines++; lines <= maxLines {
			s.logger.Warn("registry document", "problem", p.String())
		}
	}
	if lines > maxLines {
		s.logger.Warn("registry documents", "moreProblems", lines-maxLines)
	}
	s.reported, s.status.LastSkip = reported, cmp.Or(firstNew, first)
}
