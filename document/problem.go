// Package document reads what people write: YAML and JSON files, one or several documents
// a file, each value with its line and column. It is the first step of the way of a
// configuration or a registry document into the server:
//
//	read.go     bytes → Documents; broken and oversized input is refused here
//	decode.go   Document → Go struct, strictly; all problems are collected
//	scalar.go   single values: text, numbers, durations, whatever reads itself from text
//	ttl.go      TTL: whole seconds as DNS has them
//	lookup.go   path of a field → node, line and column, for later checks
//	problem.go  Problem: what is wrong, and where
//
// The way on: config and registry decode into their types, check what the types cannot
// say and report that with the same Problems (Document.Errorf).
package document

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Severity says whether a Problem makes its document unusable.
type Severity uint8

const (
	// Error: the document cannot be used.
	Error Severity = iota
	// Warning: it can be used, but something in it does not do what it seems to say.
	Warning
)

// Problem is one thing that is wrong with a file.
type Problem struct {
	File     string   // as given to Read
	Line     int      // from 1; 0 when the whole file is meant
	Column   int      // from 1, in characters
	Field    string   // path, for instance spec.backends[0].locator; "" for the whole document
	Message  string   // what is wrong and what is wanted instead
	Severity Severity // Error unless said otherwise
}

// String is FILE:LINE:COL: FIELD: message; parts that are not known are left out, and
// the message of a warning says so.
func (p Problem) String() string {
	var b strings.Builder
	b.WriteString(p.File)
	if p.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", p.Line, p.Column)
	}
	b.WriteString(": ")
	if p.Field != "" {
		b.WriteString(p.Field + ": ")
	}
	if p.Severity == Warning {
		b.WriteString("warning: ")
	}
	b.WriteString(p.Message)
	return b.String()
}

// HasErrors says whether one of the problems is more than a warning.
func HasErrors(problems []Problem) bool {
	return slices.ContainsFunc(problems, func(p Problem) bool { return p.Severity == Error })
}

// Merge puts the problems of decoding and those of checks made afterwards together. Of the
// latter it leaves out those about fields that could not be decoded: a locator that is a
// list is not missing, too.
func Merge(decoding, checks []Problem) []Problem {
	out := slices.Clone(decoding)
	for _, p := range checks {
		if !slices.ContainsFunc(decoding, func(d Problem) bool { return isAtOrBelow(p.Field, d.Field) }) {
			out = append(out, p)
		}
	}
	return out
}

func isAtOrBelow(path, parent string) bool {
	rest, ok := strings.CutPrefix(path, parent)
	return parent == "" || ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// Sort orders problems by file and place; those of one place keep their order.
func Sort(problems []Problem) {
	slices.SortStableFunc(problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
}
