package document

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// Bounds on what is read, so that no input costs more than its size.
const (
	// MaxBytes of one file: ten times the largest object that etcd takes, and room for
	// some 20,000 registry documents.
	MaxBytes = 16 << 20
	// MaxDepth of nesting: Kubernetes objects stay below 30.
	MaxDepth = 100
	// MaxAliased values that aliases may add to a document: far more than people write,
	// and still only megabytes when decoded.
	MaxAliased = 100_000
)

// Document is one document of a file. It is immutable and safe for concurrent use.
type Document struct {
	file string
	base string // path of root in its file's document, "" unless made by Items
	root *yaml.Node
}

// Read reads all documents of a file. Documents are separated by lines that begin with
// "---"; one that cannot be read is left out and reported, the others live on. Empty
// documents are left out silently.
func Read(file string, data []byte) ([]*Document, []Problem) {
	if p, bad := unreadable(file, data); bad {
		return nil, []Problem{p}
	}
	var docs []*Document
	var problems []Problem
	for _, c := range split(data) {
		root, err := parse(c.data)
		if err != nil {
			problems = append(problems, syntaxProblem(file, c, err))
			continue
		}
		if root == nil {
			continue
		}
		if p, bad := examine(root, c.line-1); bad {
			p.File = file
			problems = append(problems, p)
			continue
		}
		docs = append(docs, &Document{file: file, root: root})
	}
	return docs, problems
}

func unreadable(file string, data []byte) (Problem, bool) {
	if len(data) > MaxBytes {
		return Problem{File: file, Message: fmt.Sprintf("%d bytes are too many: at most %d are read", len(data), MaxBytes)}, true
	}
	for line, rest := 1, data; len(rest) > 0; line++ {
		text, after, _ := bytes.Cut(rest, []byte("\n"))
		if !utf8.Valid(text) {
			return Problem{File: file, Line: line, Column: 1, Message: "not UTF-8 text"}, true
		}
		rest = after
	}
	return Problem{}, false
}

// chunk is the text of one document; line is where it begins, from 1.
type chunk struct {
	data []byte
	line int
}

// split cuts a file at its "---" lines, which cannot occur inside of a document (YAML
// 1.2.2 section 9.1.2), so that a syntax error ends one document and not the file. Comments
// and directives before a "---" stay with the document after it; chunks without anything
// else are left out.
func split(data []byte) []chunk {
	var chunks []chunk
	current, line := chunk{line: 1}, 0
	start, begun, hasContent := 0, false, false
	for at := 0; at < len(data); {
		line++
		end := len(data)
		if i := bytes.IndexByte(data[at:], '\n'); i >= 0 {
			end = at + i + 1
		}
		text := bytes.TrimRight(data[at:end], " \t\r\n")
		rest, isMarker := bytes.CutPrefix(text, []byte("---"))
		isMarker = isMarker && (len(rest) == 0 || rest[0] == ' ' || rest[0] == '\t')
		if isMarker && begun {
			if hasContent {
				current.data = data[start:at]
				chunks = append(chunks, current)
			}
			start, current.line, hasContent = at, line, false
		}
		isNote := len(text) == 0 || text[0] == '#' || text[0] == '%'
		begun = begun || isMarker || !isNote
		hasContent = hasContent || isMarker && len(rest) > 0 || !isMarker && !isNote
		at = end
	}
	if hasContent {
		current.data = data[start:]
		chunks = append(chunks, current)
	}
	return chunks
}

// parse reads one document; nil without an error says that there is none. A panic of the
// parser is the document's fault and must not end the process.
func parse(data []byte) (root *yaml.Node, err error) {
	defer func() {
		if r := recover(); r != nil {
			root, err = nil, fmt.Errorf("cannot be read: %v", r)
		}
	}()
	if json.Valid(data) {
		data = yamlEscapes(data)
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var node, next yaml.Node
	if err := decoder.Decode(&node); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, nil
		}
		return nil, err
	}
	if err := decoder.Decode(&next); err == nil {
		return nil, fmt.Errorf(`line %d: a second document without a line "---" before it`, next.Line)
	} else if !errors.Is(err, io.EOF) {
		return nil, err
	}
	if root = node.Content[0]; isNull(root) {
		return nil, nil
	}
	return root, nil
}

// syntaxProblem takes the line, which counts from the chunk's first, out of the parser's
// error text.
func syntaxProblem(file string, c chunk, err error) Problem {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	line := 1
	if m := regexp.MustCompile(`^line (\d+): `).FindStringSubmatch(text); m != nil {
		line, _ = strconv.Atoi(m[1]) // digits; too many of them leave the largest int
		text = text[len(m[0]):]
		if isGrammarError(text) {
			line++
		}
	}
	line = min(line, 1+bytes.Count(bytes.TrimRight(c.data, "\n"), []byte("\n"))) // not beyond the end
	return Problem{File: file, Line: c.line + line - 1, Column: 1, Message: "not valid YAML or JSON: " + text}
}

// isGrammarError says whether text is one of the parser's errors whose lines count from
// 0; those of its scanner count from 1.
func isGrammarError(text string) bool {
	rest, ok := strings.CutPrefix(text, "did not find expected ")
	return ok && (rest == "key" || rest == "node content" || rest == "'-' indicator" ||
		strings.HasPrefix(rest, "',' or ") || strings.HasPrefix(rest, "<"))
}

// yamlEscapes rewrites the two escapes of JSON (RFC 8259 section 7) that the YAML parser
// does not know: surrogate pairs (\ud83d\ude00) and the escaped slash.
func yamlEscapes(data []byte) []byte {
	if !bytes.Contains(data, []byte(`\`)) {
		return data
	}
	out := make([]byte, 0, len(data))
	for i := 0; i < len(data); {
		if data[i] != '\\' {
			out = append(out, data[i])
			i++
		} else if r, ok := surrogatePair(data[i:]); ok {
			out = fmt.Appendf(out, `\U%08X`, r)
			i += len(`\uXXXX\uXXXX`)
		} else if data[i+1] == '/' {
			out = append(out, '/')
			i += 2
		} else {
			out = append(out, data[i:i+2]...)
			i += 2
		}
	}
	return out
}

func surrogatePair(s []byte) (r int64, ok bool) {
	if len(s) < 12 || s[0] != '\\' || s[1] != 'u' || s[6] != '\\' || s[7] != 'u' {
		return 0, false
	}
	high, err1 := strconv.ParseUint(string(s[2:6]), 16, 16)
	low, err2 := strconv.ParseUint(string(s[8:12]), 16, 16)
	if err1 != nil || err2 != nil || high>>10 != 0xD800>>10 || low>>10 != 0xDC00>>10 {
		return 0, false
	}
	return int64(0x10000 + (high&0x3FF)<<10 + low&0x3FF), true
}

// examine walks a fresh document once: it moves lines down by offset and refuses what
// would make later walks endless or dear.
func examine(root *yaml.Node, offset int) (Problem, bool) {
	e := examiner{offset: offset, size: map[*yaml.Node]int{}}
	total := e.walk(root, 0)
	if e.bad == nil && total-e.nodes > MaxAliased {
		e.refuse(root, "aliases add %d values: at most %d are read", total-e.nodes, MaxAliased)
	}
	if e.bad != nil {
		return *e.bad, true
	}
	return Problem{}, false
}

type examiner struct {
	offset int
	nodes  int
	size   map[*yaml.Node]int // of anchored nodes, aliases expanded; -1 while inside of one
	bad    *Problem
}

func (e *examiner) refuse(n *yaml.Node, format string, args ...any) {
	if e.bad == nil {
		e.bad = &Problem{Line: n.Line, Column: n.Column, Message: fmt.Sprintf(format, args...)}
	}
}

// walk returns how many values n has once aliases are expanded. The number stops growing
// far above the limit, so that it cannot overflow.
func (e *examiner) walk(n *yaml.Node, depth int) int {
	n.Line += e.offset
	e.nodes++
	if depth > MaxDepth {
		e.refuse(n, "nested more than %d deep", MaxDepth)
		return 1
	}
	if n.Kind == yaml.AliasNode {
		return e.aliased(n)
	}
	if n.Anchor != "" {
		e.size[n] = -1
	}
	total := 1
	for _, child := range n.Content {
		total = min(total+e.walk(child, depth+1), 1<<40)
	}
	if n.Anchor != "" {
		e.size[n] = total
	}
	return total
}

// aliased is the size of what an alias stands for: anchors come before their aliases.
func (e *examiner) aliased(n *yaml.Node) int {
	size := e.size[n.Alias]
	if size < 0 {
		e.refuse(n, "alias *%s stands inside of its own anchor", n.Value)
		return 1
	}
	return size
}
