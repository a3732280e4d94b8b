package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// example finds a marked block of the README.
func example(t *testing.T, what string) string {
	readme, err := os.ReadFile("../README.md")
	require.NoError(t, err)
	block := regexp.MustCompile("(?s)<!-- example: " + what + " -->\n```yaml\n(.*?)```").FindSubmatch(readme)
	require.NotNil(t, block, what)
	return string(block[1])
}

// The README's configuration and registry document are what `check` calls good: of what
// is not there (the kubeconfigs) it warns.
func TestReadmeExamples(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "registry"), 0o755))
	path := filepath.Join(dir, "meshdns.yaml")
	require.NoError(t, os.WriteFile(path, []byte(example(t, "config")), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "registry", "checkout.yaml"), []byte(example(t, "registry")), 0o644))
	got := run(t, "check", "--config", path)
	assert.Zero(t, got.code, got.stdout+got.stderr)
	assert.NotContains(t, got.stdout, "checkout.yaml")
}
