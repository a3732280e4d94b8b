package document

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func texts(problems []Problem) []string {
	out := []string{}
	for _, p := range problems {
		out = append(out, p.String())
	}
	return out
}

func TestReadSeparatesDocuments(t *testing.T) {
	for name, c := range map[string]struct {
		data  string
		names []string
		lines []int
	}{
		"one":                      {"name: a\n", []string{"a"}, []int{1}},
		"two":                      {"name: a\n---\nname: b\n", []string{"a", "b"}, []int{1, 3}},
		"leading separator":        {"---\nname: a\n---\nname: b", []string{"a", "b"}, []int{2, 4}},
		"empty ones":               {"---\n---\n# nothing\n---\nname: a\n---\n", []string{"a"}, []int{5}},
		"comments before":          {"# one\n# two\n---\nname: a\n", []string{"a"}, []int{4}},
		"directive":                {"%YAML 1.1\n---\nname: a\n", []string{"a"}, []int{3}},
		"document end":             {"name: a\n...\n---\nname: b\n", []string{"a", "b"}, []int{1, 4}},
		"on the separator's line":  {"--- {name: a}\n--- # comment\nname: b\n", []string{"a", "b"}, []int{1, 3}},
		"windows lines":            {"name: a\r\n---\r\nname: b\r\n", []string{"a", "b"}, []int{1, 3}},
		"dashes in a block scalar": {"name: |-\n  a\n  ---\n  b\n", []string{"a\n---\nb"}, []int{1}},
		"dashes in a word":         {"name: a\n---b: c\n", []string{"a"}, []int{1}},
		"json":                     {"{\n\t\"name\": \"a\\/b \\ud83d\\ude00 \\\\ud83d\\\\ude00\"\n}", []string{"a/b 😀 \\ud83d\\ude00"}, []int{1}},
		"no json escapes in yaml":  {"name: '\\/ \\ud83d\\ude00'\n", []string{`\/ \ud83d\ude00`}, []int{1}},
		"byte order mark":          {"\ufeffname: a\n", []string{"a"}, []int{1}},
		"nothing":                  {"", nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			docs, problems := Read("f.yaml", []byte(c.data))
			assert.Empty(t, problems)
			var names []string
			var lines []int
			for _, d := range docs {
				names = append(names, d.Text("name"))
				lines = append(lines, d.At("").Line)
			}
			assert.Equal(t, c.names, names)
			assert.Equal(t, c.lines, lines)
		})
	}
}

// CASES C130: a broken document does not take the others with it.
func TestReadKeepsTheOthers(t *testing.T) {
	docs, problems := Read("f.yaml", []byte("name: a\n---\nname: [b\n---\nname: c\n---\nx: *nowhere\n---\nname: d"))
	require.Len(t, docs, 3)
	assert.Equal(t, "d", docs[2].Text("name"))
	require.Len(t, problems, 2)
	assert.Contains(t, problems[0].String(), "f.yaml:3:1: not valid YAML or JSON: ")
	assert.Contains(t, problems[1].String(), "unknown anchor 'nowhere'")
	assert.Equal(t, 6, problems[1].Line)
}

func TestReadRefuses(t *testing.T) {
	bomb := "a: &a [x, x, x, x, x, x, x, x, x, x]\n"
	for i := byte('b'); i <= 'p'; i++ {
		bomb += fmt.Sprintf("%c: &%c [*%c, *%c, *%c, *%c, *%c, *%c, *%c, *%c, *%c, *%c]\n", i, i, i-1, i-1, i-1, i-1, i-1, i-1, i-1, i-1, i-1, i-1)
	}
	for name, c := range map[string]struct{ data, want string }{
		"aliases that multiply":   {bomb, "f.yaml:1:1: aliases add"},
		"an alias inside itself":  {"a: &a\n  b: *a\n", "f.yaml:2:6: alias *a stands inside of its own anchor"},
		"a merge inside itself":   {"&a\n<<: *a\n", "f.yaml:2:5: alias *a stands inside of its own anchor"},
		"depth":                   {strings.Repeat("[", 200) + strings.Repeat("]", 200), "f.yaml:1:102: nested more than 100 deep"},
		"size":                    {strings.Repeat("#", MaxBytes+1), "f.yaml: 16777217 bytes are too many: at most 16777216 are read"},
		"binary":                  {"a: 1\nb: \xff\xfe\n", "f.yaml:2:1: not UTF-8 text"},
		"lone surrogate":          {`{"a": "\ud83d"}`, "f.yaml:1:1: not valid YAML or JSON: "},
		"no separator":            {"{}\n...\n{}\n", "f.yaml:3:1: not valid YAML or JSON: did not find expected <document start>"},
		"tab as indentation":      {"a:\n\tb: 1\n", "f.yaml:2:1: not valid YAML or JSON: "},
		"text after the document": {"{}\nx: y\n", "f.yaml:"},
	} {
		t.Run(name, func(t *testing.T) {
			docs, problems := Read("f.yaml", []byte(c.data))
			assert.Empty(t, docs)
			require.Len(t, problems, 1)
			assert.True(t, strings.HasPrefix(problems[0].String(), c.want), problems[0].String())
		})
	}
}

// Hostile input must cost about what its size costs.
func TestReadIsLinear(t *testing.T) {
	for name, unit := range map[string]string{
		"brackets": "[", "braces": "{", "questions": "? ", "dashes": "- ", "anchors": "&a ", "colons": "a: ", "quotes": `"`,
		"comments": "a: b\n#c\n", "lists": "- a\n", "separators": "---\n", "surrogates": `\ud83d`, "spaces": " \n", "keys": "?\n",
	} {
		t.Run(name, func(t *testing.T) {
			data := bytes.Repeat([]byte(unit), 1<<16/len(unit))
			start := time.Now()
			_, _ = Read("f.yaml", data)
			assert.Less(t, time.Since(start), 30*time.Second) // milliseconds where nobody else uses the machine
		})
	}
}

func TestProblemString(t *testing.T) {
	assert.Equal(t, "f: whole file", Problem{File: "f", Message: "whole file"}.String())
	assert.Equal(t, "f:2:3: a.b: bad", Problem{File: "f", Line: 2, Column: 3, Field: "a.b", Message: "bad"}.String())
	assert.Equal(t, "f:2:3: a: warning: odd", Problem{File: "f", Line: 2, Column: 3, Field: "a", Message: "odd", Severity: Warning}.String())
}

func TestSortAndHasErrors(t *testing.T) {
	problems := []Problem{{File: "b", Line: 1, Severity: Warning}, {File: "a", Line: 2, Column: 2}, {File: "a", Line: 2, Column: 1}}
	assert.True(t, HasErrors(problems))
	assert.False(t, HasErrors(problems[:1]))
	Sort(problems)
	assert.Equal(t, []string{"a:2:1: ", "a:2:2: ", "b:1:0: warning: "}, texts(problems))
}

func TestMerge(t *testing.T) {
	decoding := []Problem{{Field: "spec.port", Message: "d"}}
	checks := []Problem{{Field: "spec.port"}, {Field: "spec.port.x"}, {Field: "spec.port[0]"}, {Field: "spec.ports"}, {Field: "spec"}, {}}
	assert.Equal(t, []Problem{{Field: "spec.port", Message: "d"}, {Field: "spec.ports"}, {Field: "spec"}, {}}, Merge(decoding, checks))
}
