package kubernetes

import (
	"bytes"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// asBefore has the decoder take what encoding/json takes.
var asBefore = jsonv2.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

// jsonList is a file of JSON.
type jsonList struct {
	data          []byte
	kind, version string
	items         int // where the value of items begins; 0: it is not a list
}

// findList looks over the whole of data; ok is false when it is not one value of JSON.
func findList(data []byte) (l jsonList, ok bool) {
	l.data = data
	decoder := jsontext.NewDecoder(bytes.NewBuffer(data), asBefore)
	if decoder.PeekKind() != '{' {
		err := decoder.SkipValue()
		return l, err == nil && atEnd(decoder)
	}
	if _, err := decoder.ReadToken(); err != nil {
		return l, false
	}
	for decoder.PeekKind() != '}' {
		if !l.field(decoder) {
			return l, false
		}
	}
	if _, err := decoder.ReadToken(); err != nil {
		return l, false
	}
	if !strings.HasSuffix(l.kind, "List") {
		l.items = 0
	}
	return l, atEnd(decoder)
}

// field reads a field of the outermost object.
func (l *jsonList) field(decoder *jsontext.Decoder) bool {
	name, err := decoder.ReadToken()
	if err != nil {
		return false
	}
	field := name.String()
	if kind := decoder.PeekKind(); field == "items" && kind == '[' {
		l.items = int(decoder.InputOffset())
	} else if kind == '"' && (field == "kind" || field == "apiVersion") {
		value, err := decoder.ReadToken()
		if field == "kind" {
			l.kind = value.String()
		} else {
			l.version = value.String()
		}
		return err == nil
	}
	return decoder.SkipValue() == nil
}

func atEnd(decoder *jsontext.Decoder) bool {
	return len(bytes.TrimSpace(decoder.UnreadBuffer())) == 0
}

// each calls f with each object.
func (l *jsonList) each(f func(raw)) {
	if l.items == 0 {
		f(raw{line: 1, data: l.data})
		return
	}
	start := l.items + bytes.IndexByte(l.data[l.items:], '[')
	kind, version := itemsOf(l.kind, l.version)
	lines := lineCounter{data: l.data, line: 1}
	decoder := jsontext.NewDecoder(bytes.NewBuffer(l.data[start:]), asBefore)
	_, _ = decoder.ReadToken() // the bracket; all has been looked over
	for decoder.PeekKind() != ']' {
		data, err := decoder.ReadValue()
		if err != nil {
			return
		}
		at := start + int(decoder.InputOffset()) - len(data)
		f(raw{line: lines.at(at), data: data, kind: kind, version: version})
	}
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

// quickDecoder decodes objects into memory of its own, which the next call uses again.
type quickDecoder struct {
	in      quickObject
	service corev1.Service
	slice   discoveryv1.EndpointSlice
}

// quickObject has all the fields that count, of both kinds.
type quickObject struct {
	APIVersion  string                     `json:"apiVersion"`
	Kind        string                     `json:"kind"`
	Metadata    quickMeta                  `json:"metadata"`
	Spec        quickSpec                  `json:"spec"`
	AddressType discoveryv1.AddressType    `json:"addressType"`
	Ports       []discoveryv1.EndpointPort `json:"ports"`
	Endpoints   []discoveryv1.Endpoint     `json:"endpoints"`
}

type quickMeta struct {
	Namespace         string            `json:"namespace"`
	Name              string            `json:"name"`
	CreationTimestamp metav1.Time       `json:"creationTimestamp"`
	Labels            map[string]string `json:"labels"`
	Annotations       map[string]string `json:"annotations"`
}

type quickSpec struct {
	Type         corev1.ServiceType `json:"type"`
	ClusterIP    string             `json:"clusterIP"`
	ClusterIPs   []string           `json:"clusterIPs"`
	ExternalName string             `json:"externalName"`
	Selector     map[string]string  `json:"selector"`
	Ports        []quickPort        `json:"ports"`
}

type quickPort struct {
	Name     string          `json:"name"`
	Protocol corev1.Protocol `json:"protocol"`
	Port     int32           `json:"port"`
}

// otherKind is an object that is not read.
type otherKind struct{}

// decode is the *corev1.Service or *discoveryv1.EndpointSlice of r, an otherKind, or nil
// when it takes a closer look to say what r is.
func (q *quickDecoder) decode(r raw) any {
	q.in = quickObject{}
	if err := jsonv2.Unmarshal(r.data, &q.in, asBefore); err != nil {
		return nil
	}
	if q.in.Kind == "" {
		q.in.Kind, q.in.APIVersion = r.kind, r.version
	}
	meta := &q.in.Metadata
	if meta.Namespace == "" {
		meta.Namespace = defaultNamespace
	}
	switch {
	case q.in.Kind == "" || q.in.Kind == endpointsName:
		return nil
	case q.in.Kind != serviceName && q.in.Kind != sliceName:
		return otherKind{}
	case meta.Name == "":
		return nil
	case q.in.Kind == serviceName && q.in.APIVersion == "v1":
		return q.asService()
	case q.in.Kind == sliceName && q.in.APIVersion == "discovery.k8s.io/v1":
		return q.asSlice()
	}
	return nil
}

func (q *quickDecoder) asService() *corev1.Service {
	spec := &q.in.Spec
	q.service = corev1.Service{ObjectMeta: q.in.Metadata.object()}
	q.service.Spec = corev1.ServiceSpec{
		Type: spec.Type, ClusterIP: spec.ClusterIP, ClusterIPs: spec.ClusterIPs,
		ExternalName: spec.ExternalName, Selector: spec.Selector,
	}
	for _, p := range spec.Ports {
		q.service.Spec.Ports = append(q.service.Spec.Ports, corev1.ServicePort{Name: p.Name, Protocol: p.Protocol, Port: p.Port})
	}
	return &q.service
}

func (q *quickDecoder) asSlice() *discoveryv1.EndpointSlice {
	q.slice = discoveryv1.EndpointSlice{
		ObjectMeta: q.in.Metadata.object(), AddressType: q.in.AddressType, Ports: q.in.Ports, Endpoints: q.in.Endpoints,
	}
	return &q.slice
}

func (m *quickMeta) object() metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: m.Namespace, Name: m.Name, CreationTimestamp: m.CreationTimestamp, Labels: m.Labels, Annotations: m.Annotations,
	}
}
