package harness

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// tinyRoot is an e2e module whose CoreDNS is a program of one line.
func tinyRoot(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for name, content := range map[string]string{
		"coredns/main.go": "package main\n\nfunc main() {}\n",
		"coredns/go.mod": "module tiny\n\ngo 1.26.0\n\nrequire github.com/coredns/coredns v1.2.3\n\n" +
			"replace github.com/coredns/coredns => ./stub\n",
		"coredns/go.sum":      "",
		"coredns/stub/go.mod": "module github.com/coredns/coredns\n",
	} {
		_, err := WriteFile(root, name, content)
		require.NoError(t, err)
	}
	return root
}

// TestBuildOnce: whoever comes at the same time waits for one build and shares it.
func TestBuildOnce(t *testing.T) {
	root, cache := tinyRoot(t), t.TempDir()
	var logs [4]bytes.Buffer
	var paths [4]string
	var group sync.WaitGroup
	for i := range logs {
		group.Go(func() {
			builder := &Builder{root: root, cache: cache, log: &logs[i]}
			path, err := builder.Tool(CoreDNS)
			if err != nil {
				t.Error(err)
			}
			paths[i] = path
		})
	}
	group.Wait()
	built := 0
	for i := range logs {
		built += strings.Count(logs[i].String(), "built coredns")
		require.Equal(t, paths[0], paths[i])
	}
	require.Equal(t, 1, built)
	require.FileExists(t, paths[0])
	left, err := filepath.Glob(filepath.Join(cache, "*.building"))
	require.NoError(t, err)
	require.Empty(t, left)
}

// TestBuildAnew: another source is another binary; a failed build is a missing tool.
func TestBuildAnew(t *testing.T) {
	root := tinyRoot(t)
	builder := &Builder{root: root, cache: t.TempDir(), log: &bytes.Buffer{}}
	first, err := builder.Tool(CoreDNS)
	require.NoError(t, err)
	require.Contains(t, first, "coredns-v1.2.3-")

	main := filepath.Join(root, "coredns", "main.go")
	require.NoError(t, os.WriteFile(main, []byte("package main\n\nfunc main() { println() }\n"), 0o644))
	second, err := builder.Tool(CoreDNS)
	require.NoError(t, err)
	require.NotEqual(t, first, second)

	require.NoError(t, os.WriteFile(main, []byte("package main\n\nfunc main() { nonsense }\n"), 0o644))
	_, err = builder.Tool(CoreDNS)
	require.ErrorContains(t, err, "nonsense")
	require.True(t, IsMissing(err))
}

// TestRecipes: each tool's module names the version that is built.
func TestRecipes(t *testing.T) {
	builder, err := NewBuilder(&bytes.Buffer{})
	require.NoError(t, err)
	for _, tool := range ToolsToCache() {
		args, version, err := builder.arguments(recipes()[tool])
		require.NoError(t, err)
		require.Regexp(t, `^v\d+\.\d+\.\d+$`, version)
		require.Equal(t, tool == KubeAPIServer, strings.Contains(strings.Join(args, " "), "gitVersion="+version))
	}
}
