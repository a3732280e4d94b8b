package kubernetes

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshdns/meshdns/document"
)

// defaultNamespace is where kubectl puts objects that name none.
const defaultNamespace = "default"

// What the kinds of objects that are read are called.
const (
	serviceName   = "Service"
	sliceName     = "EndpointSlice"
	endpointsName = "Endpoints"
)

// itemID names an object of the manifests.
type itemID struct {
	kind string // Service, EndpointSlice or Endpoints
	key
}

func (id itemID) String() string { return id.kind + " " + id.key.String() }

// item is an object of a file: one of object and endpoints.
type item struct {
	line      int
	object    *object
	endpoints *mirrored
}

func (i *item) id() itemID {
	switch {
	case i.endpoints != nil:
		return itemID{endpointsName, i.endpoints.key}
	case i.object.kind == kindService:
		return itemID{serviceName, i.object.key}
	default:
		return itemID{sliceName, i.object.key}
	}
}

// contents is what a file holds.
type contents struct {
	blank    bool               // nothing at all
	items    []item             // each object once
	again    []repeat           // objects that come again later in the file
	problems []document.Problem // of what is left out, and warnings
	// broken are objects that are left out and known by name; whole is false when what
	// else the file may hold is not known.
	broken []itemID
	whole  bool
}

// repeat is an object that does not count because a later one has its name.
type repeat struct {
	id          itemID
	place, wins place
}

func (r repeat) String() string {
	return r.id.String() + ": " + r.wins.String() + ", not " + r.place.String()
}

// place is where an object stands.
type place struct {
	file string
	line int
}

func (p place) String() string { return fmt.Sprintf("%s:%d", p.file, p.line) }

// fileDecoder reads one file.
type fileDecoder struct {
	file    string
	convert *converter
	quick   quickDecoder
	at      map[itemID]int // where an object is in out.items
	out     contents
}

// decodeFile reads the objects of a file: YAML documents, or one of JSON; single objects
// and lists. Fields that are not known, and kinds that are not read, are passed over. It
// keeps nothing of data.
func decodeFile(file string, data []byte, c *converter) *contents {
	d := &fileDecoder{file: file, convert: c, at: map[itemID]int{}}
	d.out.whole = true
	d.out.blank = len(bytes.TrimSpace(data)) == 0
	if l, ok := findList(data); ok { // much faster, and dumps may be large
		l.each(d.object)
	} else if err := eachYAML(data, d.object); err != nil {
		d.out.whole = false
		d.problem(syntaxLine(err), "not valid YAML or JSON: "+strings.TrimPrefix(err.Error(), "yaml: "))
	}
	d.out.items = slices.Clip(d.out.items)
	return &d.out
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

// object decodes one object: quickly, or as the API's own types say, which tell what is
// wrong with it. Neither an error nor a panic goes beyond it.
func (d *fileDecoder) object(r raw) {
	var id itemID
	defer func() {
		if p := recover(); p != nil {
			d.skip(r.line, id, fmt.Sprintf("cannot be read: %v", p))
		}
	}()
	if r.err == nil && d.quickly(r) {
		return
	}
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

// quickly decodes an object with which all is well; false says that something is not.
func (d *fileDecoder) quickly(r raw) bool {
	switch obj := d.quick.decode(r).(type) {
	case *corev1.Service:
		d.add(r, item{object: d.convert.convert(obj)})
	case *discoveryv1.EndpointSlice:
		d.add(r, item{object: d.convert.convert(obj)})
	case otherKind:
	default:
		return false
	}
	return true
}

// known decodes an object of a kind that is read.
func (d *fileDecoder) known(r raw, h head, id itemID) {
	switch h.APIVersion + " " + h.Kind {
	case "v1 " + serviceName:
		if s := new(corev1.Service); d.unmarshal(r, id, s, &s.ObjectMeta) {
			d.add(r, item{object: d.convert.convert(s)})
		}
	case "discovery.k8s.io/v1 " + sliceName:
		if s := new(discoveryv1.EndpointSlice); d.unmarshal(r, id, s, &s.ObjectMeta) {
			d.add(r, item{object: d.convert.convert(s)})
		}
	case "v1 " + endpointsName:
		if e := new(endpoints); d.unmarshal(r, id, e, &e.ObjectMeta) {
			d.add(r, item{endpoints: mirror(e, d.convert)})
		}
	case "discovery.k8s.io/v1beta1 " + sliceName:
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
	i.line = r.line
	id := i.id()
	if o := i.object; o != nil && o.complaint != "" {
		if o.bad {
			d.skip(r.line, id, id.String()+": "+o.complaint)
			return
		}
		d.problem(r.line, id.String()+": "+o.complaint)
		d.out.problems[len(d.out.problems)-1].Severity = document.Warning
	}
	at, had := d.at[id]
	if !had {
		d.at[id] = len(d.out.items)
		d.out.items = append(d.out.items, i)
		return
	}
	d.out.again = append(d.out.again, repeat{id, place{d.file, d.out.items[at].line}, place{d.file, r.line}})
	d.out.items[at] = i
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

// itemsOf is the type that a list's items have when they name none: nothing for the
// general "List".
func itemsOf(kind, version string) (itemKind, itemVersion string) {
	if kind == "List" {
		return "", ""
	}
	return strings.TrimSuffix(kind, "List"), version
}
