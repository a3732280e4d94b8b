package document

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

type inner struct {
	Text string `yaml:"text"`
	Port uint16 `json:"port"`
}

type sample struct {
	inner
	Flag    bool              `yaml:"flag"`
	Small   int8              `yaml:"small"`
	Big     uint64            `yaml:"big"`
	Wait    time.Duration     `yaml:"wait"`
	TTL     *TTL              `yaml:"ttl"`
	Prefix  netip.Prefix      `yaml:"prefix"`
	When    time.Time         `yaml:"when"`
	List    []string          `yaml:"list"`
	Nested  []inner           `yaml:"nested"`
	Labels  map[string]string `yaml:"labels"`
	Managed Any               `yaml:"managed"`
	Hidden  string            `yaml:"-"`
	Derived int
}

func read(t *testing.T, text string) *Document {
	t.Helper()
	docs, problems := Read("f.yaml", []byte(text))
	require.Empty(t, problems)
	require.Len(t, docs, 1)
	return docs[0]
}

func TestDecode(t *testing.T) {
	five, zero := TTL(5*time.Second), TTL(0)
	for name, c := range map[string]struct {
		text string
		want sample
	}{
		"block": {"text: a\nport: 80\nflag: true\nsmall: -128\nbig: 18446744073709551615\nwait: 1m30s\nttl: 5\n" +
			"prefix: 10.0.0.0/8\nwhen: 2026-01-02T03:04:05Z\nlist: [a, 'b']\nnested:\n- text: x\n- port: 1\nlabels: {a.b/c: d}\n" +
			"managed: {any: [thing, {at: all}]}\n",
			sample{inner{"a", 80}, true, -128, 18446744073709551615, 90 * time.Second, &five, netip.MustParsePrefix("10.0.0.0/8"),
				time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), []string{"a", "b"}, []inner{{Text: "x"}, {Port: 1}},
				map[string]string{"a.b/c": "d"}, Any{}, "", 0}},
		"json":          {`{"text": "a", "nested": [{"port": 7}], "ttl": "5s"}`, sample{inner: inner{Text: "a"}, Nested: []inner{{Port: 7}}, TTL: &five}},
		"null is unset": {"text:\nttl: null\nlist: ~\nlabels:\n", sample{}},
		"zero is set":   {"ttl: 0", sample{TTL: &zero}},
		"alias":         {"nested: [&x {text: a}, *x]", sample{Nested: []inner{{Text: "a"}, {Text: "a"}}}},
		"merge": {"nested: [&x {text: a, port: 1}, {<<: *x, port: 2}, {<<: [{text: b}, *x]}]",
			sample{Nested: []inner{{"a", 1}, {"a", 2}, {"b", 1}}}},
		"a date is text": {"text: 2026-01-02", sample{inner: inner{Text: "2026-01-02"}}},
	} {
		t.Run(name, func(t *testing.T) {
			var got sample
			assert.Empty(t, read(t, c.text).Decode(&got))
			assert.Equal(t, c.want, got)
		})
	}
}

func TestDecodeKeepsDefaults(t *testing.T) {
	got := sample{Flag: true, Wait: time.Second, inner: inner{Text: "before"}}
	assert.Empty(t, read(t, "wait: 0s\ntext: null").Decode(&got))
	assert.Equal(t, sample{Flag: true, inner: inner{Text: "before"}}, got)
}

// CASES C131: a typo or a wrong shape is an error with its path, never an empty value.
func TestDecodeProblems(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"unknown field":       {"loactor: x", "f.yaml:1:1: loactor: unknown field; known here: big, flag, labels, list, managed, nested, port, prefix, small, text, ttl, wait, when"},
		"unknown below":       {"nested:\n- text: a\n- loactor: x", "f.yaml:3:3: nested[1].loactor: unknown field; known here: port, text"},
		"untagged":            {"Derived: 1", "unknown field"},
		"hidden":              {"Hidden: x", "unknown field"},
		"case matters":        {"Text: x", "f.yaml:1:1: Text: unknown field"},
		"list for text":       {"text: [a]", "f.yaml:1:7: text: want a single value, got a list"},
		"list for mapping":    {"labels: [a]", "f.yaml:1:9: labels: want fields (a mapping), got a list"},
		"mapping for list":    {"nested: {text: a}", "f.yaml:1:9: nested: want a list, got fields (a mapping)"},
		"text for list":       {"list: a", `f.yaml:1:7: list: want a list, got the text "a"`},
		"text for fields":     {"nested: [a]", `f.yaml:1:10: nested[0]: want fields (a mapping), got the text "a"`},
		"list for the whole":  {"[a]", "f.yaml:1:1: want fields (a mapping), got a list"},
		"number for text":     {"text: 010", "f.yaml:1:7: text: want text, got the number 010: put it into quotes"},
		"truth for text":      {"list: [true]", "f.yaml:1:8: list[0]: want text, got the truth value true: put it into quotes"},
		"unknown tag":         {"text: !secret a", "f.yaml:1:7: text: want text, got a value with the tag !secret"},
		"text for truth":      {"flag: yes", `f.yaml:1:7: flag: want true or false, got the text "yes"`},
		"no truth":            {"flag: !!bool x", "f.yaml:1:7: flag: want true or false"},
		"text for number":     {"port: '80'", `f.yaml:1:7: port: want a whole number, got the text "80"`},
		"fraction":            {"port: 80.5", "f.yaml:1:7: port: want a whole number, got the number 80.5"},
		"octal":               {"port: 010", "f.yaml:1:7: port: want a whole number in decimal digits without a leading zero, got 010"},
		"hexadecimal":         {"port: 0x50", "f.yaml:1:7: port: want a whole number in decimal digits"},
		"underscore":          {"port: 8_0", "f.yaml:1:7: port: want a whole number in decimal digits, got 8_0"},
		"port range":          {"port: 70000", "f.yaml:1:7: port: 70000 is out of range: 0 to 65535"},
		"negative port":       {"port: -1", "f.yaml:1:7: port: -1 is out of range: 0 to 65535"},
		"signed range":        {"small: 128", "f.yaml:1:8: small: 128 is out of range: -128 to 127"},
		"beyond 64 bits":      {"big: 18446744073709551616", "f.yaml:1:6: big: 18446744073709551616 is out of range: 0 to 18446744073709551615"},
		"duration":            {"wait: 5", "f.yaml:1:7: wait: want a duration such as 5s, 10m or 24h, got the number 5"},
		"own type":            {"prefix: 10.0.0.0", "f.yaml:1:9: prefix: \"10.0.0.0\": no '/'"},
		"twice":               {"text: a\nport: 1\ntext: b", "f.yaml:3:1: text: given twice, before in line 1"},
		"twice in labels":     {"labels: {a.b: c, a.b: d}", `f.yaml:1:18: labels["a.b"]: given twice, before in line 1`},
		"empty entry":         {"list: [a, ~]", "f.yaml:1:11: list[1]: empty entry in a list"},
		"a list as key":       {"? [a]\n: b", "f.yaml:1:3: a field's name must be text, got a list"},
		"merge of text":       {"nested: [{<<: a}]", `f.yaml:1:15: nested[0].<<: want fields (a mapping) to merge, got the text "a"`},
		"TTL below zero":      {"ttl: -1", "f.yaml:1:6: ttl: a TTL of -1 is out of range: 0 to 2147483647 seconds"},
		"TTL beyond":          {"ttl: 4294967296", "f.yaml:1:6: ttl: a TTL of 4294967296 is out of range"},
		"TTL far beyond":      {"ttl: 99999999999999999999", "f.yaml:1:6: ttl: a TTL of 99999999999999999999 is out of range"},
		"TTL part of seconds": {"ttl: 1500ms", "f.yaml:1:6: ttl: a TTL of 1500ms has a part of a second"},
		"TTL of words":        {"ttl: soon", `f.yaml:1:6: ttl: "soon" is no TTL: want whole seconds or a duration such as 5s`},
		"TTL with fraction":   {"ttl: 1.5", `f.yaml:1:6: ttl: "1.5" is no TTL`},
	} {
		t.Run(name, func(t *testing.T) {
			var got sample
			problems := read(t, c.text).Decode(&got)
			require.Len(t, problems, 1, "%v", texts(problems))
			assert.Contains(t, problems[0].String(), c.want)
			assert.Equal(t, Error, problems[0].Severity)
		})
	}
}

func TestDecodeCollectsAllProblems(t *testing.T) {
	var got sample
	problems := read(t, "text: [a]\nport: -1\nnope: 1\nnested:\n- port: x\n- text: good\n").Decode(&got)
	require.Len(t, problems, 4)
	assert.Equal(t, "nested[0].port", problems[3].Field)
	assert.Equal(t, []inner{{}, {Text: "good"}}, got.Nested)
}

// CASES C164: 0 and the largest TTL are taken, so is each in between.
func TestTTLRange(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0": 0, "1": time.Second, "5s": 5 * time.Second, "1m0s": time.Minute, "90000": 90000 * time.Second, "2147483647": 2147483647 * time.Second,
	} {
		var ttl TTL
		require.NoError(t, ttl.UnmarshalText([]byte(text)))
		assert.Equal(t, want, ttl.Duration(), text)
	}
	assert.Equal(t, "5s", TTL(5*time.Second).String())
}

func TestLookup(t *testing.T) {
	d := read(t, "# about\nmeta:\n  labels: {\"a.b\": x, \"c]\\\"\": y}\nspec:\n  list:\n  - name: one\n    empty:\n  - name: two\n")
	for path, want := range map[string]Place{
		"":                         {2, 1},
		"meta":                     {2, 1},
		"spec.list":                {5, 3},
		"spec.list[1]":             {8, 5},
		"spec.list[1].name":        {8, 11},
		`meta.labels["a.b"]`:       {3, 19},
		`meta.labels["c]\""]`:      {3, 30},
		"spec.list[1].absent.more": {8, 5},
		"spec.list[7].name":        {5, 3},
		"spec.list.name":           {5, 3},
		"nothing":                  {2, 1},
	} {
		assert.Equal(t, want, d.At(path), path)
	}
	assert.True(t, d.Has("spec.list"))
	assert.False(t, d.Has("spec.list[0].empty"))
	assert.False(t, d.Has("spec.list[2]"))
	assert.Equal(t, "x", d.Text(`meta.labels["a.b"]`))
	assert.Equal(t, "", d.Text("spec"))
}

func TestItems(t *testing.T) {
	d := read(t, "kind: List\nitems:\n- kind: a\n- kind: b\n  spec: {x: 1}\n- [odd]\n")
	items := d.Items("items")
	require.Len(t, items, 3)
	assert.Equal(t, "b", items[1].Text("kind"))
	assert.Equal(t, "f.yaml:5:13: items[1].spec.x: no good", items[1].Errorf("spec.x", "no %s", "good").String())
	assert.Equal(t, "f.yaml:4:3: items[1]: warning: odd", items[1].Warnf("", "odd").String())
	var into struct {
		Kind string `yaml:"kind"`
	}
	assert.Equal(t, []string{"f.yaml:5:3: items[1].spec: unknown field; known here: kind"}, texts(items[1].Decode(&into)))
	assert.Equal(t, []string{"f.yaml:6:3: items[2]: want fields (a mapping), got a list"}, texts(items[2].Decode(&into)))
	assert.Empty(t, d.Items("kind"))
	assert.Equal(t, "f.yaml", d.File())
}
