package kubernetes

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshdns/meshdns/document"
)

// defaultNamespace is where kubectl puts objects that name none.
const defaultNamespace = "default"

// itemID names an object of the manifests.
type itemID struct {
	kind string // Service, EndpointSlice or Endpoints
	key
}

func (id itemID) String() string { return id.kind + " " + id.key.String() }

// item is an object of a file.
type item struct {
	id   itemID
	file string
	line int
	// object is a converted Service or EndpointSlice; nil for Endpoints.
	object    *object
	endpoints *endpoints
	selects   bool // a Service with a selector
	mirrored  bool // an EndpointSlice that the cluster had mirrored from Endpoints
}

// contents is what a file holds.
type contents struct {
	items    []item
	problems []document.Problem // of what is left out, and warnings
	// broken are objects that are left out and known by name; whole is false when what
	// else the file may hold is not known.
	broken []itemID
	whole  bool
}

// fileDecoder reads one file.
type fileDecoder struct {
	file    string
	convert *converter
	out     contents
}

// decodeFile reads the objects of a file: YAML documents, or one of JSON; single objects
// and lists. Fields that are not known, and kinds that are not read, are passed over.
func decodeFile(file string, data []byte, c *converter) contents {
	d := &fileDecoder{file: file, convert: c, out: contents{whole: true}}
	var err error
	if json.Valid(data) { // much faster, and dumps may be large
		err = eachJSON(data, d.object)
	} else {
		err = eachYAML(data, d.object)
	}
	if err != nil {
		d.out.whole = false
		d.problem(syntaxLine(err), "not valid YAML or JSON: "+strings.TrimPrefix(err.Error(), "yaml: "))
	}
	return d.out
}

func (d *fileDecoder) problem(line int, message string) {
	d.out.problems = append(d.out.problems, document.Problem{File: d.file, Line: line, Column: 1, Message: message})
}

func syntaxLine(err error) int {
	line := 1
	_, _ = fmt.Sscanf(err.Error(), "yaml: line %d:", &line) // 1 where the error names none
	return line
}

// raw is one object as JSON. kind and version are those that a typed list (ServiceList)
// implies for its items.
type raw struct {
	line          int
	data          []byte
	kind, version string
	err           error // data could not be made
}

// head is what all objects have.
type head struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
	} `json:"metadata"`
}

// object decodes one object. Neither an error nor a panic goes beyond it.
func (d *fileDecoder) object(r raw) {
	var id itemID
	defer func() {
		if p := recover(); p != nil {
			d.skip(r.line, id, fmt.Sprintf("cannot be read: %v", p))
		}
	}()
	var h head
	if r.err == nil {
		r.err = json.Unmarshal(r.data, &h)
	}
	if r.err != nil {
		d.skip(r.line, id, "not a Kubernetes object: "+plain(r.err))
		return
	}
	if h.Kind == "" {
		h.Kind, h.APIVersion = r.kind, r.version
	}
	if h.Metadata.Namespace == "" {
		h.Metadata.Namespace = defaultNamespace
	}
	id = itemID{h.Kind, key{h.Metadata.Namespace, h.Metadata.Name}}
	d.known(r, h, id)
}

// known decodes an object of a kind that is read.
func (d *fileDecoder) known(r raw, h head, id itemID) {
	switch h.APIVersion + " " + h.Kind {
	case "v1 Service":
		if s := new(corev1.Service); d.unmarshal(r, id, s, &s.ObjectMeta) {
			d.add(r, item{id: id, object: d.convert.convert(s), selects: len(s.Spec.Selector) > 0})
		}
	case "discovery.k8s.io/v1 EndpointSlice":
		if s := new(discoveryv1.EndpointSlice); d.unmarshal(r, id, s, &s.ObjectMeta) {
			d.add(r, item{id: id, object: d.convert.convert(s), mirrored: s.Labels[discoveryv1.LabelManagedBy] == mirrorController})
		}
	case "v1 Endpoints":
		if e := new(endpoints); d.unmarshal(r, id, e, &e.ObjectMeta) {
			d.add(r, item{id: id, endpoints: e})
		}
	case "discovery.k8s.io/v1beta1 EndpointSlice":
		d.skip(r.line, id, "apiVersion discovery.k8s.io/v1beta1 is not read, only v1")
	default:
		if h.Kind == "" {
			d.skip(r.line, itemID{}, "not a Kubernetes object: kind is missing")
		}
	}
}

// unmarshal reads an object whole and gives it its namespace.
func (d *fileDecoder) unmarshal(r raw, id itemID, into any, meta *metav1.ObjectMeta) bool {
	if err := json.Unmarshal(r.data, into); err != nil {
		d.skip(r.line, id, id.String()+": "+plain(err))
		return false
	}
	if id.name == "" {
		d.skip(r.line, itemID{}, id.kind+": metadata.name is missing")
		return false
	}
	meta.Namespace = id.namespace
	return true
}

func (d *fileDecoder) add(r raw, i item) {
	i.file, i.line = d.file, r.line
	if o := i.object; o != nil && o.complaint != "" {
		if o.bad {
			d.skip(r.line, i.id, i.id.String()+": "+o.complaint)
			return
		}
		d.problem(r.line, i.id.String()+": "+o.complaint)
		d.out.problems[len(d.out.problems)-1].Severity = document.Warning
	}
	d.out.items = append(d.out.items, i)
}

// skip leaves an object out.
func (d *fileDecoder) skip(line int, id itemID, message string) {
	d.problem(line, message)
	if id.name != "" {
		d.out.broken = append(d.out.broken, id)
	}
}

// plain is an error's text without the name of Go's package.
func plain(err error) string { return strings.TrimPrefix(err.Error(), "json: ") }

// eachYAML calls f with each object of the documents of data, up to the first syntax error.
func eachYAML(data []byte, f func(raw)) (err error) {
	defer func() {
		if p := recover(); p != nil { // the parser's fault must not end the process
			err = fmt.Errorf("%v", p)
		}
	}()
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var doc yaml.Node
		if err := decoder.Decode(&doc); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		root := doc.Content[0]
		if root.Kind == yaml.ScalarNode && root.Tag == "!!null" {
			continue // an empty document
		}
		kind, items := yamlList(root)
		if items == nil {
			f(yamlObject(root, "", ""))
			continue
		}
		itemKind, version := itemsOf(kind.kind, kind.version)
		for _, node := range items.Content {
			f(yamlObject(node, itemKind, version))
		}
	}
}

// listKind is the type of a list.
type listKind struct{ kind, version string }

// yamlList is the type and the items of a list; items is nil when root is none.
func yamlList(root *yaml.Node) (kind listKind, items *yaml.Node) {
	if root.Kind != yaml.MappingNode {
		return kind, nil
	}
	for i := 0; i+1 < len(root.Content); i += 2 {
		value := root.Content[i+1]
		switch root.Content[i].Value {
		case "kind":
			kind.kind = value.Value
		case "apiVersion":
			kind.version = value.Value
		case "items":
			items = value
		}
	}
	if !strings.HasSuffix(kind.kind, "List") || items == nil || items.Kind != yaml.SequenceNode {
		return kind, nil
	}
	return kind, items
}

// itemsOf is the type that a list's items have when they name none: nothing for the
// general "List".
func itemsOf(kind, version string) (itemKind, itemVersion string) {
	if kind == "List" {
		return "", ""
	}
	return strings.TrimSuffix(kind, "List"), version
}

func yamlObject(node *yaml.Node, kind, version string) raw {
	r := raw{line: node.Line, kind: kind, version: version}
	var value any
	if r.err = node.Decode(&value); r.err == nil {
		r.data, r.err = json.Marshal(value)
	}
	return r
}

// eachJSON calls f with each object of data, which must be valid.
func eachJSON(data []byte, f func(raw)) error {
	var list struct {
		Kind       string          `json:"kind"`
		APIVersion string          `json:"apiVersion"`
		Items      json.RawMessage `json:"items"`
	}
	err := json.Unmarshal(data, &list)
	if err != nil || !strings.HasSuffix(list.Kind, "List") || !bytes.HasPrefix(list.Items, []byte("[")) {
		f(raw{line: 1, data: data}) // which reports the error, if this is no object
		return nil
	}
	kind, version := itemsOf(list.Kind, list.APIVersion)
	decoder := json.NewDecoder(bytes.NewReader(list.Items))
	if _, err := decoder.Token(); err != nil {
		return err
	}
	lines := lineCounter{data: list.Items, line: 1 + bytes.Count(data[:max(0, bytes.Index(data, list.Items))], []byte("\n"))}
	for decoder.More() {
		var data json.RawMessage
		if err := decoder.Decode(&data); err != nil {
			return err
		}
		f(raw{line: lines.at(int(decoder.InputOffset()) - len(data)), data: data, kind: kind, version: version})
	}
	return nil
}

// lineCounter finds the lines of offsets that only grow.
type lineCounter struct {
	data   []byte
	offset int
	line   int
}

func (c *lineCounter) at(offset int) int {
	c.line += bytes.Count(c.data[c.offset:offset], []byte("\n"))
	c.offset = offset
	return c.line
}
