package document

import (
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// File is the name of the file, as given to Read.
func (d *Document) File() string { return d.file }

// Place is a line and a column, both from 1; columns count characters.
type Place struct{ Line, Column int }

// At is where the field at path stands: the value of a scalar, the key of a mapping or a
// list, the first line of a list's entry. What is absent stands where the nearest present
// parent does. "" is the document.
func (d *Document) At(path string) Place {
	place, _ := d.find(path)
	return place
}

// Has says whether the field is present and not null.
func (d *Document) Has(path string) bool {
	_, node := d.find(path)
	return node != nil && !isNull(node)
}

// Text is the scalar at path as written, "" when there is none.
func (d *Document) Text(path string) string {
	if _, node := d.find(path); node != nil && node.Kind == yaml.ScalarNode && !isNull(node) {
		return node.Value
	}
	return ""
}

// Items are the entries of the list at path as documents of their own; their problems
// name fields from the outer document's root. Without a list there are none.
func (d *Document) Items(path string) []*Document {
	_, list := d.find(path)
	if list == nil || list.Kind != yaml.SequenceNode {
		return nil
	}
	items := make([]*Document, len(list.Content))
	for i, entry := range list.Content {
		items[i] = &Document{file: d.file, base: d.full(fmt.Sprintf("%s[%d]", path, i)), root: resolve(entry)}
	}
	return items
}

// Errorf is an error about the field at path.
func (d *Document) Errorf(path, format string, args ...any) Problem {
	return d.problem(d.At(path), path, Error, fmt.Sprintf(format, args...))
}

// Warnf is a warning about the field at path.
func (d *Document) Warnf(path, format string, args ...any) Problem {
	return d.problem(d.At(path), path, Warning, fmt.Sprintf(format, args...))
}

func (d *Document) problem(at Place, path string, severity Severity, message string) Problem {
	return Problem{
		File: d.file, Line: at.Line, Column: at.Column,
		Field: d.full(path), Message: message, Severity: severity,
	}
}

// full is path as seen from the root of the file's document.
func (d *Document) full(path string) string {
	if d.base == "" || path == "" || path[0] == '[' {
		return d.base + path
	}
	return d.base + "." + path
}

// find walks to the field at path. node is nil when it is absent; at is then the place of
// the last parent that is there.
func (d *Document) find(path string) (at Place, node *yaml.Node) {
	node = resolve(d.root)
	at = placeOf(node)
	for path != "" {
		var step string
		step, path = nextStep(path)
		key, value := child(node, step)
		if value == nil {
			return at, nil
		}
		node = resolve(value)
		at = placeOf(value)
		if key != nil && node.Kind != yaml.ScalarNode {
			at = placeOf(key)
		}
	}
	return at, node
}

func placeOf(n *yaml.Node) Place { return Place{Line: n.Line, Column: n.Column} }

// nextStep takes the first step off a path: a key ("spec", or "a.b" of ["a.b"]) or an
// index ("[0]").
func nextStep(path string) (step, rest string) {
	path = strings.TrimPrefix(path, ".")
	if quoted, err := strconv.QuotedPrefix(strings.TrimPrefix(path, "[")); err == nil && path[0] == '[' {
		step, _ = strconv.Unquote(quoted) // QuotedPrefix returns only what can be unquoted
		return step, strings.TrimPrefix(path[1+len(quoted):], "]")
	}
	end := strings.IndexAny(path[min(1, len(path)):], ".[")
	if end < 0 {
		return path, ""
	}
	return path[:end+1], path[end+1:]
}

// child is the value of one step below n, with its key in a mapping.
func child(n *yaml.Node, step string) (key, value *yaml.Node) {
	switch n.Kind {
	case yaml.MappingNode:
		for _, p := range pairs(n) {
			if p.key.Value == step {
				return p.key, p.value
			}
		}
	case yaml.SequenceNode:
		i, err := strconv.Atoi(strings.Trim(step, "[]"))
		if err == nil && 0 <= i && i < len(n.Content) {
			return nil, n.Content[i]
		}
	}
	return nil, nil
}

// keyPath is the path of a mapping's value below path.
func keyPath(path, key string) string {
	if key == "" || strings.ContainsAny(key, `.[]" `) {
		return path + "[" + strconv.Quote(key) + "]"
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

type pair struct{ key, value *yaml.Node }

// pairs are the text keys of a mapping and their values as written, then those that its
// merge keys (<<) bring in and that are not there yet.
func pairs(n *yaml.Node) []pair {
	own := make([]pair, 0, len(n.Content)/2)
	var merged []pair
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := resolve(n.Content[i]), n.Content[i+1]
		if key.Kind != yaml.ScalarNode {
			continue // decoding reports it
		}
		if key.ShortTag() != mergeTag {
			own = append(own, pair{key, value})
			continue
		}
		for _, from := range mergeSources(value) {
			merged = append(merged, pairs(from)...)
		}
	}
	if len(merged) == 0 {
		return own
	}
	have := map[string]bool{}
	for _, p := range own {
		have[p.key.Value] = true
	}
	for _, p := range merged {
		if !have[p.key.Value] {
			have[p.key.Value] = true
			own = append(own, p)
		}
	}
	return own
}

// mergeSources are the mappings that the value of a merge key stands for; none when it is
// something else, which decoding reports.
func mergeSources(value *yaml.Node) []*yaml.Node {
	value = resolve(value)
	switch value.Kind {
	case yaml.MappingNode:
		return []*yaml.Node{value}
	case yaml.SequenceNode:
		var from []*yaml.Node
		for _, entry := range value.Content {
			if entry = resolve(entry); entry.Kind == yaml.MappingNode {
				from = append(from, entry)
			}
		}
		return from
	}
	return nil
}

// resolve follows an alias to what it stands for. Read has refused circles; an alias
// never stands for an alias.
func resolve(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

func isNull(n *yaml.Node) bool {
	n = resolve(n)
	return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null"
}
