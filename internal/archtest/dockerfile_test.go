package archtest

import (
	"bytes"
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestDockerfile runs the Dockerfile's build line as it stands there, for machines where
// no container engine runs, and looks at what it makes: a binary that asks for no dynamic
// loader, and starts. The image has nothing else, and no root.
func TestDockerfile(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the product")
	}
	text, err := os.ReadFile(filepath.Join(root, "Dockerfile"))
	require.NoError(t, err)
	line := regexp.MustCompile(`(?m)^RUN (.*go build .* -o (\S+) .*)$`).FindSubmatch(text)
	require.NotNil(t, line, "no RUN line with go build")
	binary := filepath.Join(t.TempDir(), "meshdns")
	command := bytes.ReplaceAll(line[1], line[2], []byte(binary))

	build := exec.Command("sh", "-c", string(command))
	build.Dir = root
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))

	file, err := elf.Open(binary)
	require.NoError(t, err)
	defer file.Close()
	for _, segment := range file.Progs {
		assert.NotEqual(t, elf.PT_INTERP, segment.Type, "not static")
	}
	libraries, err := file.ImportedLibraries()
	require.NoError(t, err)
	assert.Empty(t, libraries)
	out, err = exec.Command(binary, "version").CombinedOutput()
	assert.NoError(t, err, string(out))

	assert.Regexp(t, `(?m)^FROM scratch$`, string(text))
	assert.Regexp(t, `(?m)^USER [1-9]\d*:[1-9]\d*$`, string(text), "a user by number that is not root")
}
