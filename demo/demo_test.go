package demo

import (
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestWrite(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, Write(dir))
	for _, path := range []string{Mesh, Elsewhere} {
		assert.FileExists(t, filepath.Join(dir, path))
	}
	assert.ErrorContains(t, Write(dir), "writing the demo's documents")
}

// Every address of the documents is from the documentation networks (RFC 5737), each
// network for one place.
func TestAddresses(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, Write(dir))
	networks := map[string]string{
		"mesh/clusterx":      "192.0.2.0/24",
		"mesh/clustery":      "198.51.100.0/24",
		"mesh/registry":      "203.0.113.0/24",
		"elsewhere/registry": "203.0.113.0/24",
	}
	address := regexp.MustCompile(`\d+\.\d+\.\d+\.\d+`)
	for folder, network := range networks {
		prefix := netip.MustParsePrefix(network)
		files, err := filepath.Glob(filepath.Join(dir, folder, "*.yaml"))
		require.NoError(t, err)
		require.NotEmpty(t, files, folder)
		for _, file := range files {
			content, err := os.ReadFile(file)
			require.NoError(t, err)
			for _, text := range address.FindAllString(string(content), -1) {
				assert.True(t, prefix.Contains(netip.MustParseAddr(text)), "%s: %s", file, text)
			}
		}
	}
}

func TestQuestions(t *testing.T) {
	for _, q := range Questions() {
		assert.NotEmpty(t, q.About, q.Name)
		assert.False(t, strings.HasSuffix(q.Name, "."), q.Name)
	}
}
