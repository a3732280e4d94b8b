package registry

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/meshdns/meshdns/document"
	"github.com/meshdns/meshdns/names"
)

// Options say in which surroundings documents are read.
type Options struct {
	Mesh  names.Name   // the mesh zone; registered names are below it. Must not be zero
	Zones []names.Name // the other zones of this server: no registered name may be in one
	// Unserved are those of Zones that are not served yet.
	Unserved []names.Name
	Source   string // becomes Origin.Source
	// Clusters are the names of the configured clusters. nil says that they are not known:
	// then what a document says of clusters is not checked against them.
	Clusters []string
	Site     string // the cluster or site that "local" means, "" when there is none
}

// What is read, and what is known but not read yet.
const (
	meshServiceKind    = "MeshService"
	meshServiceVersion = "meshdns.io/v1alpha1"
	smiServiceKind     = "Service"
	smiServiceVersion  = "specs.smi-spec.io/v1alpha1"
	maxListDepth       = 3 // a list of lists is odd already
)

// Decode reads the registry documents of one file or object, YAML or JSON. Documents
// with an error are left out, the others live on; problems are all errors and warnings,
// ordered by place. What only several documents together show is found by CheckSet.
func Decode(file string, data []byte, opts Options) ([]*MeshService, []document.Problem) {
	r := DecodeAll(file, data, opts)
	return r.Services, r.Problems
}

// Result is what a file holds.
type Result struct {
	Services []*MeshService
	Problems []document.Problem
	// LeftOut counts the documents that have an error. Those that register a name all the
	// same are in Refused, with their Faults; Unnamed says that of others the name cannot
	// even be read.
	LeftOut int
	Refused []*MeshService
	Unnamed bool
}

// DecodeAll is Decode for those who need to know what was left out.
func DecodeAll(file string, data []byte, opts Options) Result {
	docs, problems := document.Read(file, data)
	r := reader{opts: &opts, Result: Result{Problems: problems, LeftOut: len(problems), Unnamed: len(problems) > 0}}
	for _, doc := range docs {
		r.read(doc, 0)
	}
	document.Sort(r.Problems)
	return r.Result
}

// reader collects a Result.
type reader struct {
	opts *Options
	Result
}

// warn notes a problem of a document that is left out on purpose.
func (r *reader) warn(p document.Problem) { r.Problems = append(r.Problems, p) }

// refuse leaves a document out.
func (r *reader) refuse(doc *document.Document, problems ...document.Problem) {
	r.Problems = append(r.Problems, problems...)
	r.LeftOut++
	text := doc.Text("metadata.name")
	if _, err := names.Parse(text); err != nil {
		r.Unnamed = true
		return
	}
	c := checker{opts: r.opts, doc: doc}
	if name := c.name(text); len(c.problems) == 0 { // others are no names to register at all
		faults := slices.DeleteFunc(problems, func(p document.Problem) bool { return p.Severity != document.Error })
		known := MeshService{Name: name, Origin: r.origin(doc, doc.Text("kind")), nameAt: doc.At("metadata.name")}
		r.Refused = append(r.Refused, known.Refuse(faults))
	}
}

func (r *reader) origin(doc *document.Document, kind string) Origin {
	return Origin{Source: r.opts.Source, File: doc.File(), Line: doc.At("").Line, Kind: kind}
}

// read takes one document, or one entry of a list.
func (r *reader) read(doc *document.Document, depth int) {
	version, kind := doc.Text("apiVersion"), doc.Text("kind")
	group, _, _ := strings.Cut(version, "/")
	switch {
	case kind == "":
		r.refuse(doc, doc.Errorf("kind", "missing: want %s (apiVersion %s)", meshServiceKind, meshServiceVersion))
	case isList(version, kind):
		r.readList(doc, depth)
	case kind == meshServiceKind && version == meshServiceVersion:
		var raw rawMeshService
		r.finish(doc, doc.Decode(&raw), raw.rawObject, &raw.Spec)
	case kind == smiServiceKind && version == smiServiceVersion:
		var raw rawSMIService
		problems := doc.Decode(&raw)
		r.finish(doc, problems, raw.rawObject, raw.Spec.spec())
	case notReadYet(group, kind):
		r.warn(doc.Warnf("kind", "%s is not read yet: it has no effect", kind))
	case version == "":
		r.refuse(doc, doc.Errorf("apiVersion", "missing: want %s", meshServiceVersion))
	default:
		r.refuse(doc, doc.Errorf("kind", "%s %s is no registry document: %s", version, kind, adviceFor(group, kind)))
	}
}

// isList says whether a document is the form in which an API hands out several objects.
func isList(version, kind string) bool {
	return kind == "List" && version == "v1" ||
		kind == meshServiceKind+"List" && version == meshServiceVersion ||
		kind == smiServiceKind+"List" && version == smiServiceVersion
}

func (r *reader) readList(doc *document.Document, depth int) {
	if depth == maxListDepth {
		r.refuse(doc, doc.Errorf("", "lists nested more than %d deep", maxListDepth))
		return
	}
	var list rawList
	if problems := doc.Decode(&list); len(problems) > 0 {
		r.refuse(doc, problems...) // its items may be good all the same
	}
	for _, item := range doc.Items("items") {
		r.read(item, depth+1)
	}
}

// notReadYet says whether a kind belongs to a group whose documents describe services
// too. The discussions write TrafficSplit without any apiVersion.
func notReadYet(group, kind string) bool {
	known := []string{"TrafficSplit", "TrafficTarget", "HTTPRouteGroup", "TCPRoute", "UDPRoute",
		"ServiceEntry", "WorkloadEntry", "ExternalWorkload", "ServiceExport", "ServiceImport"}
	groups := []string{"smi-spec.io", "networking.istio.io", "workload.linkerd.io", "multicluster.x-k8s.io"}
	if group == "" {
		return slices.Contains(known, kind)
	}
	return slices.ContainsFunc(groups, func(g string) bool {
		return (group == g || strings.HasSuffix(group, "."+g)) && kind != smiServiceKind
	})
}

func adviceFor(group, kind string) string {
	switch {
	case group == "v1" || group == "discovery.k8s.io":
		return "plain Kubernetes objects belong into a folder named by clusters[].manifests"
	case kind == meshServiceKind:
		return "its apiVersion is " + meshServiceVersion
	case kind == smiServiceKind:
		return "its apiVersion is " + smiServiceVersion
	}
	return fmt.Sprintf("want %s (%s) or %s (%s)", meshServiceKind, meshServiceVersion, smiServiceKind, smiServiceVersion)
}

// The shapes of documents, before anything is checked.

type rawObject struct {
	APIVersion string       `yaml:"apiVersion"`
	Kind       string       `yaml:"kind"`
	Metadata   rawMetadata  `yaml:"metadata"`
	Status     document.Any `yaml:"status"`
}

// rawMetadata takes what `kubectl get -o yaml` prints, too.
type rawMetadata struct {
	Name              string            `yaml:"name"`
	Namespace         string            `yaml:"namespace"`
	Labels            map[string]string `yaml:"labels"`
	CreationTimestamp time.Time         `yaml:"creationTimestamp"`

	Annotations     document.Any `yaml:"annotations"`
	Finalizers      document.Any `yaml:"finalizers"`
	Generation      document.Any `yaml:"generation"`
	ManagedFields   document.Any `yaml:"managedFields"`
	OwnerReferences document.Any `yaml:"ownerReferences"`
	ResourceVersion document.Any `yaml:"resourceVersion"`
	SelfLink        document.Any `yaml:"selfLink"`
	UID             document.Any `yaml:"uid"`
}

type rawList struct {
	APIVersion string         `yaml:"apiVersion"`
	Kind       string         `yaml:"kind"`
	Metadata   document.Any   `yaml:"metadata"`
	Items      []document.Any `yaml:"items"`
}

type rawMeshService struct {
	rawObject
	Spec rawSpec `yaml:"spec"`
}

// rawSpec has the short form's fields beside the long form's list.
type rawSpec struct {
	rawBackend
	Backends []rawBackend  `yaml:"backends"`
	Ports    []rawPort     `yaml:"ports"`
	TTL      *document.TTL `yaml:"ttl"`
	Identity string        `yaml:"identity"`
	Policy   rawPolicy     `yaml:"policy"`
}

type rawBackend struct {
	Type      BackendType   `yaml:"type"`
	Locator   string        `yaml:"locator"`
	Cluster   string        `yaml:"cluster"`
	Port      uint16        `yaml:"port"`
	Weight    *uint16       `yaml:"weight"`   // as wide as SRV's (RFC 2782)
	Priority  uint16        `yaml:"priority"` // likewise
	Health    *rawHealth    `yaml:"health"`
	Staleness *rawStaleness `yaml:"staleness"`
}

type rawHealth struct {
	TCP            uint16         `yaml:"tcp"`
	Interval       *time.Duration `yaml:"interval"`
	Timeout        *time.Duration `yaml:"timeout"`
	UnhealthyAfter *uint16        `yaml:"unhealthyAfter"`
	HealthyAfter   *uint16        `yaml:"healthyAfter"`
}

type rawStaleness struct {
	KeepShared time.Duration `yaml:"keepShared"`
	KeepOnly   time.Duration `yaml:"keepOnly"`
	Then       string        `yaml:"then"`
}

type rawPort struct {
	Name     string `yaml:"name"`
	Port     uint16 `yaml:"port"`
	Protocol string `yaml:"protocol"`
}

type rawPolicy struct {
	Order          string `yaml:"order"`
	Locality       string `yaml:"locality"`
	MaxAnswers     int    `yaml:"maxAnswers"`
	PanicThreshold int    `yaml:"panicThreshold"`
}

// rawSMIService is the proposal's document (first seed).
type rawSMIService struct {
	rawObject
	Spec rawSMISpec `yaml:"spec"`
}

type rawSMISpec struct {
	Type    BackendType `yaml:"type"`
	Locator string      `yaml:"locator"`
	Port    uint16      `yaml:"port"`
	Cluster string      `yaml:"cluster"`
}

func (s rawSMISpec) spec() *rawSpec {
	return &rawSpec{rawBackend: rawBackend{Type: s.Type, Locator: s.Locator, Port: s.Port, Cluster: s.Cluster}}
}
