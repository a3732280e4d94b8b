// Package archtest holds the tests of the rules that the whole tree follows: which package
// may import which (docs/design.md, section 3), that miekg/dns and each backend's SDK stay
// where they belong, and that each package has a comment that draws its part of the way.
package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	root   = "../.."
	module = "github.com/meshdns/meshdns"
)

// everything marks packages that may import all of the project.
const everything = "*"

// allowed is section 3's table: folder → folders of this project that it may import. A
// folder below one that is listed follows the same row.
var allowed = map[string][]string{
	".":                  {"cli"},
	"cli":                {everything},
	"names":              {},
	"api":                {},
	"document":           {},
	"dirwatch":           {},
	"config":             {"names", "document"},
	"registry":           {"names", "sources", "document"},
	"sources":            {"names"},
	"sources/dns":        {"sources", "registry", "names", "document", "dirwatch"},
	"sources/files":      {"sources", "registry", "names", "document", "dirwatch"},
	"sources/kubernetes": {"sources", "registry", "names", "document", "dirwatch"},
	"resolver":           {"sources", "registry", "names", "api"},
	"zones":              {"resolver", "sources", "registry", "names", "api"},
	"server":             {"zones", "names"},
	"admin":              {"api"},
	"metrics":            {"api"},
	"demo":               {},
	"bench":              {everything},
	"scenarios":          {everything},
	"internal/archtest":  {},
}

// onlyIn are modules that stay inside of some folders (tests excepted).
var onlyIn = map[string][]string{
	"github.com/miekg/dns":                {"zones", "server", "sources/dns", "scenarios", "bench"},
	"k8s.io/":                             {"sources/kubernetes"},
	"github.com/prometheus/client_golang": {"metrics", "cli"},
	"github.com/spf13/cobra":              {"cli"},
}

type file struct {
	folder string
	path   string
	test   bool
	ast    *ast.File
}

func files(t *testing.T) []file {
	var out []file
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if d.IsDir() && (relative == "e2e" || d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && relative != ".") {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, ".go") {
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		out = append(out, file{
			folder: filepath.ToSlash(filepath.Dir(relative)), path: relative,
			test: strings.HasSuffix(path, "_test.go"), ast: parsed,
		})
		return nil
	})
	require.NoError(t, err)
	require.NotEmpty(t, out)
	return out
}

// row finds the table's row of a folder: its own, or that of the nearest folder above.
func row(folder string) ([]string, bool) {
	for ; folder != "."; folder = filepath.ToSlash(filepath.Dir(folder)) {
		if r, ok := allowed[folder]; ok {
			return r, true
		}
	}
	return nil, false
}

func TestImports(t *testing.T) {
	for _, f := range files(t) {
		mayImport, known := row(f.folder)
		if f.folder == "." {
			mayImport, known = allowed["."], true
		}
		if !assert.True(t, known, "%s: folder %s is not in the table", f.path, f.folder) {
			continue
		}
		for _, spec := range f.ast.Imports {
			path := strings.Trim(spec.Path.Value, `"`)
			checkOwn(t, f, path, mayImport)
			checkForeign(t, f, path)
		}
	}
}

func checkOwn(t *testing.T, f file, path string, mayImport []string) {
	own, ok := strings.CutPrefix(path, module+"/")
	if !ok || f.test || slices.Contains(mayImport, everything) {
		return
	}
	inside := own == f.folder || strings.HasPrefix(own, f.folder+"/")
	assert.True(t, inside || slices.Contains(mayImport, own), "%s imports %s", f.path, own)
}

func checkForeign(t *testing.T, f file, path string) {
	if f.test {
		return
	}
	for prefix, folders := range onlyIn {
		if strings.HasPrefix(path, prefix) {
			ok := slices.ContainsFunc(folders, func(d string) bool { return f.folder == d || strings.HasPrefix(f.folder, d+"/") })
			assert.True(t, ok, "%s imports %s", f.path, path)
		}
	}
}

func TestPackageComments(t *testing.T) {
	comments := map[string]int{}
	for _, f := range files(t) {
		if f.test && f.folder != "internal/archtest" {
			continue
		}
		n := 0
		if f.ast.Doc != nil {
			n = len(f.ast.Doc.Text())
		}
		comments[f.folder] = max(comments[f.folder], n)
	}
	for folder, n := range comments {
		assert.Greater(t, n, 80, "package in %s: no package comment that says what it is for", folder)
	}
}

// TestNoForeignTraces keeps machine paths out of what is shipped.
func TestNoForeignTraces(t *testing.T) {
	for _, f := range files(t) {
		text, err := os.ReadFile(filepath.Join(root, f.path))
		require.NoError(t, err)
		for _, trace := range []string{"/ro" + "ot/", "/wo" + "rk/"} {
			assert.NotContains(t, string(text), trace, f.path)
		}
	}
}
