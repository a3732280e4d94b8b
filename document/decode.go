package document

import (
	"encoding"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

const mergeTag = "!!merge"

// Any is the type of a field that may hold anything and is not looked at, for instance
// what an API server adds to an object's metadata.
type Any struct{}

// Decode fills the struct that into points to. Fields are named by their yaml or json
// tag; those without a tag are not part of documents. What is absent or null leaves its
// field as it was, so that defaults can be set before. A struct that is embedded without
// a tag has its fields among the outer ones.
//
// Types of fields: bool, text, whole numbers, time.Duration, whatever reads itself from
// text (encoding.TextUnmarshaler), Any; structs, pointers, slices, and maps with text
// keys of these.
//
// All problems are returned, each an error: unknown fields, fields given twice, wrong
// shapes and types, numbers out of range. What could be decoded is in into all the same.
func (d *Document) Decode(into any) []Problem {
	dec := decoder{doc: d}
	dec.value("", d.root, reflect.ValueOf(into).Elem())
	return dec.problems
}

type decoder struct {
	doc      *Document
	problems []Problem
}

func (dec *decoder) errorf(n *yaml.Node, path, format string, args ...any) {
	dec.problems = append(dec.problems, dec.doc.problem(placeOf(n), path, Error, fmt.Sprintf(format, args...)))
}

// value decodes n into out, which must be settable.
func (dec *decoder) value(path string, n *yaml.Node, out reflect.Value) {
	n = resolve(n)
	if isNull(n) || out.Type() == reflect.TypeFor[Any]() {
		return
	}
	if text, ok := out.Addr().Interface().(encoding.TextUnmarshaler); ok {
		dec.scalar(path, n, func() error { return text.UnmarshalText([]byte(n.Value)) })
		return
	}
	switch out.Kind() {
	case reflect.Pointer:
		fresh := reflect.New(out.Type().Elem())
		dec.value(path, n, fresh.Elem())
		out.Set(fresh)
	case reflect.Struct:
		dec.structure(path, n, out)
	case reflect.Slice:
		dec.list(path, n, out)
	case reflect.Map:
		dec.table(path, n, out)
	default:
		dec.scalar(path, n, func() error { return setScalar(n, out) })
	}
}

func (dec *decoder) scalar(path string, n *yaml.Node, set func() error) {
	if n.Kind != yaml.ScalarNode {
		dec.errorf(n, path, "want a single value, got %s", shape(n))
		return
	}
	if err := set(); err != nil {
		dec.errorf(n, path, "%s", withoutCall(err.Error()))
	}
}

// withoutCall is an error's text without the name of the Go function that made it, which
// says nothing to whoever wrote the file: netip.ParsePrefix("x"): why → "x": why.
func withoutCall(text string) string {
	name, rest, ok := strings.Cut(text, "(")
	argument, why, found := strings.Cut(rest, "): ")
	if !ok || !found || strings.ContainsAny(name, " \"") || !strings.Contains(name, ".") {
		return text
	}
	return argument + ": " + why
}

func (dec *decoder) list(path string, n *yaml.Node, out reflect.Value) {
	if n.Kind != yaml.SequenceNode {
		dec.errorf(n, path, "want a list, got %s", shape(n))
		return
	}
	out.Set(reflect.MakeSlice(out.Type(), len(n.Content), len(n.Content)))
	for i, entry := range n.Content {
		entryPath := fmt.Sprintf("%s[%d]", path, i)
		if isNull(entry) {
			dec.errorf(entry, entryPath, "empty entry in a list")
			continue
		}
		dec.value(entryPath, entry, out.Index(i))
	}
}

func (dec *decoder) table(path string, n *yaml.Node, out reflect.Value) {
	if !dec.isMapping(path, n) {
		return
	}
	out.Set(reflect.MakeMap(out.Type()))
	for _, p := range pairs(n) {
		value := reflect.New(out.Type().Elem()).Elem()
		dec.value(keyPath(path, p.key.Value), p.value, value)
		out.SetMapIndex(reflect.ValueOf(p.key.Value).Convert(out.Type().Key()), value)
	}
}

func (dec *decoder) structure(path string, n *yaml.Node, out reflect.Value) {
	if !dec.isMapping(path, n) {
		return
	}
	fields := map[string]reflect.Value{}
	collectFields(out, fields)
	for _, p := range pairs(n) {
		field, known := fields[p.key.Value]
		fieldPath := keyPath(path, p.key.Value)
		if !known {
			dec.errorf(p.key, fieldPath, "unknown field; known here: %s", sortedKeys(fields))
			continue
		}
		dec.value(fieldPath, p.value, field)
	}
}

// isMapping says whether n is a mapping and reports what is wrong with its keys.
func (dec *decoder) isMapping(path string, n *yaml.Node) bool {
	if n.Kind != yaml.MappingNode {
		dec.errorf(n, path, "want fields (a mapping), got %s", shape(n))
		return false
	}
	first := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := resolve(n.Content[i])
		switch line, twice := first[key.Value]; {
		case key.Kind != yaml.ScalarNode:
			dec.errorf(key, path, "a field's name must be text, got %s", shape(key))
		case key.ShortTag() == mergeTag:
			dec.checkMerge(path, n.Content[i+1])
		case twice:
			dec.errorf(key, keyPath(path, key.Value), "given twice, before in line %d", line)
		default:
			first[key.Value] = key.Line
		}
	}
	return true
}

func (dec *decoder) checkMerge(path string, value *yaml.Node) {
	entries := []*yaml.Node{value}
	if list := resolve(value); list.Kind == yaml.SequenceNode {
		entries = list.Content
	}
	for _, entry := range entries {
		if got := resolve(entry); got.Kind != yaml.MappingNode {
			dec.errorf(entry, keyPath(path, "<<"), "want fields (a mapping) to merge, got %s", shape(got))
		}
	}
}

// collectFields adds the settable fields of a struct by their names in documents.
func collectFields(out reflect.Value, fields map[string]reflect.Value) {
	for i := range out.NumField() {
		field := out.Type().Field(i)
		name := fieldName(field)
		switch {
		case name != "":
			fields[name] = out.Field(i)
		case field.Anonymous && field.Type.Kind() == reflect.Struct:
			collectFields(out.Field(i), fields)
		}
	}
}

// fieldName is a field's name in documents, "" when it is no part of them.
func fieldName(field reflect.StructField) string {
	tag, ok := field.Tag.Lookup("yaml")
	if !ok {
		tag = field.Tag.Get("json")
	}
	name, _, _ := strings.Cut(tag, ",")
	if name == "-" {
		return ""
	}
	return name
}

func sortedKeys(fields map[string]reflect.Value) string {
	keys := make([]string, 0, len(fields))
	for key := range fields {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return strings.Join(keys, ", ")
}

// shape says what a node is, in words for people.
func shape(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "fields (a mapping)"
	case yaml.SequenceNode:
		return "a list"
	}
	switch n.ShortTag() {
	case "!!bool":
		return "the truth value " + n.Value
	case "!!int", "!!float":
		return "the number " + n.Value
	case "!!str", "!!timestamp":
		return fmt.Sprintf("the text %q", n.Value)
	}
	return "a value with the tag " + n.ShortTag()
}
