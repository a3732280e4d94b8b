package archtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	k8syaml "k8s.io/apimachinery/pkg/util/yaml"

	"github.com/meshdns/meshdns/admin"
	"github.com/meshdns/meshdns/api"
	"github.com/meshdns/meshdns/cli"
	"github.com/meshdns/meshdns/config"
	"github.com/meshdns/meshdns/document"
	"github.com/meshdns/meshdns/metrics"
	"github.com/meshdns/meshdns/names"
	"github.com/meshdns/meshdns/registry"
)

// The documents of the project, from its root. What docs/design.md says of the future is
// no promise of the present, so that its examples and fields are not looked at.
const (
	configurationPage = "docs/configuration.md"
	operationsPage    = "docs/operations.md"
	designPage        = "docs/design.md"
)

func page(t *testing.T, path string) string {
	text, err := os.ReadFile(filepath.Join(root, path))
	require.NoError(t, err)
	return string(text)
}

// pages are README.md and docs/*.md, by path from the root.
func pages(t *testing.T) map[string]string {
	found, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	require.NoError(t, err)
	out := map[string]string{"README.md": page(t, "README.md")}
	for _, path := range found {
		path = "docs/" + filepath.Base(path)
		out[path] = page(t, path)
	}
	require.Contains(t, out, configurationPage)
	require.Contains(t, out, operationsPage)
	return out
}

var codeSpan = regexp.MustCompile("`([^`\n]+)`")

// spans are the pieces of code in a text.
func spans(text string) []string {
	var out []string
	for _, m := range codeSpan.FindAllStringSubmatch(text, -1) {
		out = append(out, m[1])
	}
	return out
}

// rows are the cells of the table that begins at text, without its two heading lines.
func rows(text string) [][]string {
	var out [][]string
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "|") {
			break
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		out = append(out, cells)
	}
	return out[min(2, len(out)):]
}

// fieldTables are the fields that tables after "<!-- fields: what -->" name, with the text
// of their default.
func fieldTables(t *testing.T, what string) map[string]string {
	marker := "<!-- fields: " + what + " -->\n"
	parts := strings.Split(page(t, configurationPage), marker)
	require.Greater(t, len(parts), 1, "no table of %s", what)
	fields := map[string]string{}
	for _, part := range parts[1:] {
		for _, cells := range rows(part) {
			require.Len(t, cells, 4, "%v", cells)
			for _, field := range spans(cells[0]) {
				require.NotContains(t, fields, field, "in two rows")
				fields[field] = cells[2]
			}
		}
	}
	return fields
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// configFields are the paths of all fields of the configuration, by its struct tags.
func configFields(typ reflect.Type, prefix string) []string {
	var out []string
	for i := range typ.NumField() {
		field := typ.Field(i)
		path := prefix + field.Tag.Get("yaml")
		inner := field.Type
		if inner.Kind() == reflect.Slice && isStructure(inner.Elem()) {
			inner, path = inner.Elem(), path+"[]"
		}
		if isStructure(inner) {
			out = append(out, configFields(inner, path+".")...)
			continue
		}
		out = append(out, path)
	}
	return out
}

// isStructure says whether a value is written as fields, and not as text.
func isStructure(typ reflect.Type) bool {
	_, isText := reflect.New(typ).Interface().(interface{ UnmarshalText([]byte) error })
	return typ.Kind() == reflect.Struct && !isText
}

func TestConfigurationNamesEveryField(t *testing.T) {
	want := configFields(reflect.TypeFor[config.Config](), "")
	slices.Sort(want)
	assert.Equal(t, want, sortedKeys(fieldTables(t, "config")))
}

// TestConfigurationDefaults: a default that the page has as code changes nothing when it
// is written into a configuration, and a field with "–" is empty in one that is not.
func TestConfigurationDefaults(t *testing.T) {
	for field, text := range fieldTables(t, "config") {
		base := map[string]any{}
		if strings.HasPrefix(field, "clusters[]") {
			base["clusters"] = []any{map[string]any{"name": "a", "manifests": "m"}}
		}
		unset := parsed(t, field, base)
		switch code := spans(text); {
		case text == "–" && field == "clusters[].manifests": // base needs one of the three
		case text == "–":
			value := valueAt(reflect.ValueOf(*unset), field)
			assert.True(t, value.IsZero(), "%s has a default: %v", field, value)
		case len(code) == 1 && text == "`"+code[0]+"`":
			put(base, strings.Split(field, "."), written(code[0]))
			assert.Equal(t, unset, parsed(t, field, base), "%s is not %s unless given", field, code[0])
		default:
			assert.Contains(t, []string{"required", "as below"}, text, "the default of %s", field)
		}
	}
}

// written is a value as it stands in a document.
type written string

// put sets what is at a path of fields, in which [] is the first entry of a list.
func put(into map[string]any, path []string, value any) {
	name, isList := strings.CutSuffix(path[0], "[]")
	if len(path) == 1 {
		into[name] = value
		return
	}
	if isList {
		list, _ := into[name].([]any)
		if list == nil {
			list = []any{map[string]any{}}
			into[name] = list
		}
		put(list[0].(map[string]any), path[1:], value)
		return
	}
	inner, _ := into[name].(map[string]any)
	if inner == nil {
		inner = map[string]any{}
		into[name] = inner
	}
	put(inner, path[1:], value)
}

// yamlOf writes a document in YAML's flow style.
func yamlOf(value any) string {
	var parts []string
	switch value := value.(type) {
	case map[string]any:
		for _, key := range sortedKeys(value) {
			parts = append(parts, key+": "+yamlOf(value[key]))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case []any:
		for _, entry := range value {
			parts = append(parts, yamlOf(entry))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	return fmt.Sprint(value)
}

func parsed(t *testing.T, field string, doc map[string]any) *config.Config {
	cfg, problems := config.Parse("f.yaml", []byte(yamlOf(doc)))
	require.False(t, document.HasErrors(problems), "%s: %v", field, problems)
	return cfg
}

func valueAt(value reflect.Value, path string) reflect.Value {
	for step := range strings.SplitSeq(path, ".") {
		name, isList := strings.CutSuffix(step, "[]")
		for i := range value.NumField() {
			if value.Type().Field(i).Tag.Get("yaml") == name {
				value = value.Field(i)
				break
			}
		}
		if isList {
			value = value.Index(0)
		}
	}
	return value
}

// unknown is a field that nothing has.
const unknown = "zzz"

// documentFields are the paths of all fields of a registry document below one of its
// fields ("" for the whole), as the decoder itself tells them to whoever misspells one.
func documentFields(version, kind, path string) (fields []string, isMapping bool) {
	doc := map[string]any{}
	put(doc, strings.Split(strings.TrimPrefix(path+"."+unknown, "."), "."), written("0"))
	if doc["apiVersion"] == nil && doc["kind"] == nil {
		doc["apiVersion"], doc["kind"] = version, kind
	}
	_, problems := registry.Decode("f.yaml", []byte(yamlOf(doc)), registryOptions())
	for _, p := range problems {
		known, ok := strings.CutPrefix(p.Message, "unknown field; known here: ")
		if ok && strings.HasSuffix("."+p.Field, "."+unknown) {
			return strings.Split(known, ", "), true
		}
	}
	return nil, false
}

// documentLeaves are the paths of the fields that hold values.
func documentLeaves(version, kind, path string) []string {
	var out []string
	names, _ := documentFields(version, kind, path)
	for _, name := range names {
		field := strings.TrimPrefix(path+"."+name, ".")
		switch {
		case isMapping(version, kind, field):
			out = append(out, documentLeaves(version, kind, field)...)
		case isMapping(version, kind, field+"[]"):
			out = append(out, documentLeaves(version, kind, field+"[]")...)
		default:
			out = append(out, field)
		}
	}
	return out
}

func isMapping(version, kind, path string) bool {
	_, yes := documentFields(version, kind, path)
	return yes
}

func registryOptions() registry.Options {
	return registry.Options{Mesh: names.MustParse("mesh"), Site: "west"}
}

// registryKinds are the documents with a table of their own.
var registryKinds = map[string]string{
	"MeshService": "meshdns.io/v1alpha1",
	"Service":     "specs.smi-spec.io/v1alpha1",
	"List":        "v1",
}

func TestConfigurationNamesEveryRegistryField(t *testing.T) {
	for kind, version := range registryKinds {
		want := documentLeaves(version, kind, "")
		require.NotEmpty(t, want, kind)
		slices.Sort(want)
		assert.Equal(t, want, sortedKeys(fieldTables(t, kind)), kind)
	}
}

// TestDocsNameNoOtherField: what looks like the path of a field, anywhere in the texts, is
// one, or the beginning of one.
func TestDocsNameNoOtherField(t *testing.T) {
	known := configFields(reflect.TypeFor[config.Config](), "")
	for kind, version := range registryKinds {
		known = append(known, documentLeaves(version, kind, "")...)
	}
	path := regexp.MustCompile(`^[a-zA-Z]+(?:\[\])?(?:\.[a-zA-Z]+(?:\[\])?)+(?::|$)`)
	for file, text := range pages(t) {
		if file == designPage {
			continue
		}
		for _, span := range spans(text) {
			span = strings.TrimSuffix(path.FindString(span), ":")
			top, _, dotted := strings.Cut(span, ".")
			isField := func(f string) bool {
				return f == span || strings.HasPrefix(f, span+".") || strings.HasPrefix(f, span+"[].")
			}
			isTop := slices.ContainsFunc(known, func(f string) bool { return strings.HasPrefix(f, top+".") })
			if dotted && isTop {
				assert.True(t, slices.ContainsFunc(known, isField), "%s names the field %s", file, span)
			}
		}
	}
}

// section is the text below a heading of the second level.
func section(t *testing.T, text, heading string) string {
	_, after, ok := strings.Cut(text, "\n## "+heading+"\n")
	require.True(t, ok, "no section %q", heading)
	before, _, _ := strings.Cut(after, "\n## ")
	return before
}

// table is the first table of a text.
func table(t *testing.T, text string) [][]string {
	at := strings.Index(text, "\n|")
	require.GreaterOrEqual(t, at, 0, "no table")
	return rows(text[at+1:])
}

// recorder is a prometheus.Registerer that keeps what it gets.
type recorder struct{ collectors []prometheus.Collector }

func (r *recorder) Register(c prometheus.Collector) error {
	r.collectors = append(r.collectors, c)
	return nil
}

func (r *recorder) MustRegister(list ...prometheus.Collector) {
	r.collectors = append(r.collectors, list...)
}

func (r *recorder) Unregister(prometheus.Collector) bool { return false }

var (
	descText = regexp.MustCompile(`fqName: "(meshdns_[^"]*)".*constLabels: \{(.*)\}, variableLabels: \{(.*)\}`)
	labelKey = regexp.MustCompile(`(\w+)(?:="[^"]*")?`)
)

// registeredMetrics are the metrics of the project with their labels, name{a,b}.
func registeredMetrics() map[string]string {
	r := &recorder{}
	metrics.RegisterProcess(r, "v", "r", "g")
	metrics.NewConfig(r)
	metrics.NewSockets(r)
	metrics.NewUpstreams(r)
	r.MustRegister(metrics.NewServer(nil), metrics.NewSources(nil))
	out := map[string]string{}
	for _, c := range r.collectors {
		descs := make(chan *prometheus.Desc)
		go func() { defer close(descs); c.Describe(descs) }()
		for d := range descs {
			if m := descText.FindStringSubmatch(d.String()); m != nil {
				out[m[1]] = labelSet(m[2] + "," + m[3])
			}
		}
	}
	return out
}

// labelSet is a set of labels in one form.
func labelSet(text string) string {
	var keys []string
	for _, m := range labelKey.FindAllStringSubmatch(text, -1) {
		keys = append(keys, m[1])
	}
	slices.Sort(keys)
	return strings.Join(keys, ",")
}

func TestOperationsNamesEveryMetric(t *testing.T) {
	documented := map[string]string{}
	for _, cells := range table(t, section(t, page(t, operationsPage), "Metrics")) {
		for _, span := range spans(cells[0]) {
			name, labels, _ := strings.Cut(span, "{")
			documented[name] = labelSet(labels)
		}
	}
	registered := registeredMetrics()
	assert.Equal(t, registered, documented)

	// Nothing is registered that registeredMetrics does not know of.
	var inCode []string
	for _, text := range literals(t) {
		if regexp.MustCompile(`^meshdns_[a-z0-9_]+$`).MatchString(text) {
			inCode = append(inCode, text)
		}
	}
	slices.Sort(inCode)
	assert.Equal(t, sortedKeys(registered), slices.Compact(inCode))
}

// TestDocsNameNoOtherMetric: alerts and prose speak of metrics that exist.
func TestDocsNameNoOtherMetric(t *testing.T) {
	registered := registeredMetrics()
	for file, text := range pages(t) {
		for _, name := range regexp.MustCompile(`\bmeshdns_[a-z0-9_]+`).FindAllString(text, -1) {
			assert.Contains(t, registered, strings.TrimSuffix(name, "_bucket"), file)
		}
	}
}

// literals are all texts in the product's code.
func literals(t *testing.T) []string {
	var out []string
	for _, f := range files(t) {
		if f.test || strings.HasPrefix(f.folder, "scenarios") {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				text, err := strconv.Unquote(lit.Value)
				require.NoError(t, err)
				out = append(out, text)
			}
			return true
		})
	}
	return out
}

// TestOperationsLogLines: the log lines of the table are written by the code.
func TestOperationsLogLines(t *testing.T) {
	written := literals(t)
	lines := 0
	for _, cells := range table(t, section(t, page(t, operationsPage), "Log lines")) {
		for _, message := range spans(cells[0]) {
			assert.Contains(t, written, message)
			lines++
		}
	}
	assert.Greater(t, lines, 20)
}

var (
	example = regexp.MustCompile("(?s)<!-- example: (\\w+) -->\n```(\\w+)\n(.*?)```")
	fence   = regexp.MustCompile("(?m)^```(yaml|json)$")
)

// TestDocsExamples: marked examples are good, and every one of YAML or JSON is marked.
func TestDocsExamples(t *testing.T) {
	seen := map[string]int{}
	for file, text := range pages(t) {
		if file == designPage {
			continue
		}
		found := example.FindAllStringSubmatch(text, -1)
		assert.Len(t, found, len(fence.FindAllString(text, -1)), "%s has an example without a mark", file)
		for _, m := range found {
			seen[m[1]]++
			checkExample(t, fmt.Sprintf("%s, example %s", file, m[1]), m[1], []byte(m[3]))
		}
	}
	for _, kind := range []string{"config", "registry", "readyz", "sources", "services", "explain", "error"} {
		assert.NotZero(t, seen[kind], "no example: %s", kind)
	}
}

func checkExample(t *testing.T, where, kind string, text []byte) {
	switch kind {
	case "config":
		_, problems := config.Parse("meshdns.yaml", text)
		assert.Empty(t, problems, where)
	case "registry":
		services, problems := registry.Decode("r.yaml", text, registryOptions())
		assert.Empty(t, problems, where)
		assert.NotEmpty(t, services, where)
	case "readyz":
		sameJSON[admin.State](t, where, text)
	case "sources":
		sameJSON[[]api.Source](t, where, text)
	case "services":
		sameJSON[api.Services](t, where, text)
	case "explain":
		sameJSON[api.Explanation](t, where, text)
	case "error":
		sameJSON[struct {
			Error string `json:"error"`
			Field string `json:"field,omitempty"`
		}](t, where, text)
	default:
		assert.Fail(t, "unknown kind of example", where)
	}
}

// sameJSON says whether text has the fields of T that a program would see, and no others.
func sameJSON[T any](t *testing.T, where string, text []byte) {
	var typed T
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if !assert.NoError(t, decoder.Decode(&typed), where) {
		return
	}
	again, err := json.Marshal(typed)
	require.NoError(t, err)
	assert.JSONEq(t, string(again), string(text), where)
}

// TestDocsLinks: links inside of the project lead to files, and to headings, that are there.
func TestDocsLinks(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	for file, text := range pages(t) {
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			path, heading, _ := strings.Cut(m[1], "#")
			target := filepath.Join(filepath.Dir(file), path)
			if path == "" {
				target = file
			}
			if _, err := os.Stat(filepath.Join(root, target)); !assert.NoError(t, err, "%s links to %s", file, m[1]) || heading == "" {
				continue
			}
			assert.Contains(t, headings(page(t, target)), heading, "%s links to %s", file, m[1])
		}
	}
}

// headings are the names by which links know the headings of a page.
func headings(text string) []string {
	var out []string
	for _, m := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(text, -1) {
		name := regexp.MustCompile(`[^\p{L}\p{N}\- _]`).ReplaceAllString(strings.ToLower(m[1]), "")
		out = append(out, strings.ReplaceAll(name, " ", "-"))
	}
	return out
}

// manifest are the objects of deploy/kubernetes.yaml.
type manifest struct {
	config     corev1.ConfigMap
	deployment appsv1.Deployment
	service    corev1.Service
	budget     policyv1.PodDisruptionBudget
}

// kubernetesManifest reads deploy/kubernetes.yaml as strictly as an API server does.
func kubernetesManifest(t *testing.T) manifest {
	var m manifest
	into := map[string]any{
		"ConfigMap": &m.config, "Deployment": &m.deployment, "Service": &m.service, "PodDisruptionBudget": &m.budget,
	}
	for part := range strings.SplitSeq(page(t, "deploy/kubernetes.yaml"), "\n---\n") {
		data, err := k8syaml.ToJSON([]byte(part))
		require.NoError(t, err)
		var head struct{ Kind string }
		require.NoError(t, json.Unmarshal(data, &head))
		require.Contains(t, into, head.Kind)
		decoder := json.NewDecoder(bytes.NewReader(data))
		decoder.DisallowUnknownFields()
		require.NoError(t, decoder.Decode(into[head.Kind]), head.Kind)
		delete(into, head.Kind)
	}
	require.Empty(t, into)
	return m
}

// TestKubernetesManifest: the Deployment's configuration and arguments are good, and the
// ports of all four objects meet.
func TestKubernetesManifest(t *testing.T) {
	m := kubernetesManifest(t)
	cfg, problems := config.Parse("config.yaml", []byte(m.config.Data["config.yaml"]))
	require.Empty(t, problems)
	container := m.deployment.Spec.Template.Spec.Containers[0]
	startsWith(t, container.Args)
	ports := map[string]string{}
	for _, p := range container.Ports {
		ports[p.Name] = fmt.Sprintf(":%d/%s", p.ContainerPort, p.Protocol)
	}
	assert.Equal(t, map[string]string{
		"dns": cfg.Listen.DNS[0] + "/UDP", "dns-tcp": cfg.Listen.DNS[0] + "/TCP", "admin": cfg.Listen.Admin + "/TCP",
	}, ports)
	for _, p := range m.service.Spec.Ports {
		assert.Equal(t, p.Name, p.TargetPort.StrVal)
		assert.True(t, strings.HasSuffix(ports[p.Name], "/"+string(p.Protocol)), p.Name)
		assert.EqualValues(t, 53, p.Port)
	}
	assert.Equal(t, "/readyz", container.ReadinessProbe.HTTPGet.Path)
	assert.Equal(t, "/healthz", container.LivenessProbe.HTTPGet.Path)
	labels := m.deployment.Spec.Template.Labels
	assert.Equal(t, labels, m.deployment.Spec.Selector.MatchLabels)
	assert.Equal(t, labels, m.service.Spec.Selector)
	assert.Equal(t, labels, m.budget.Spec.Selector.MatchLabels)
}

// TestSystemdUnit: the commands of the unit are commands of the program.
func TestSystemdUnit(t *testing.T) {
	unit := page(t, "deploy/meshdns.service")
	commands := regexp.MustCompile(`(?m)^Exec\w+=/usr/local/bin/meshdns (.+)$`).FindAllStringSubmatch(unit, -1)
	require.Len(t, commands, 2)
	for _, m := range commands {
		startsWith(t, strings.Fields(m[1]))
	}
}

// startsWith says whether the program takes such arguments.
func startsWith(t *testing.T, args []string) {
	var out bytes.Buffer
	code := cli.Run(t.Context(), cli.Env{Args: append(slices.Clone(args), "--help"), Stdout: &out, Stderr: &out})
	assert.Zero(t, code, "%v: %s", args, out.String())
}
