package scenarios

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// binaryVariable names a program that is already built, to be tested in place of a fresh
// build.
const binaryVariable = "MESHDNS_BINARY"

// TestScenarios runs every script of scripts/ against the built program.
func TestScenarios(t *testing.T) {
	paths := scriptPaths(t)
	binary := buildProgram(t)
	ports := NewPorts()
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			t.Parallel()
			script, err := Load(path)
			require.NoError(t, err)
			err = Run(t.Context(), Config{Binary: binary, Ports: ports, Dir: t.TempDir()}, script)
			if errors.Is(err, ErrUnable) && os.Getenv("CI") != "true" {
				t.Skip(err)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
}

func scriptPaths(t *testing.T) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("scripts", "*.txtar"))
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	return paths
}

// buildProgram builds the program once. Where the tests have -race it has too, and checks
// each answer of the fast path against the general one.
func buildProgram(t *testing.T) string {
	t.Helper()
	if given := os.Getenv(binaryVariable); given != "" {
		absolute, err := filepath.Abs(given)
		require.NoError(t, err)
		return absolute
	}
	binary := filepath.Join(t.TempDir(), "meshdns")
	args := []string{"build", "-o", binary}
	if raceEnabled {
		args = append(args, "-race", "-tags", "bothpaths")
	}
	cmd := exec.CommandContext(t.Context(), "go", append(args, ".")...)
	cmd.Dir = ".."
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "building the program:\n%s", out)
	return binary
}

// rulesWithScripts are the rules of the DNS behaviour that are implemented and must have
// a script. 26 (TCP in depth), 29 to 32 and 35 to 37 come later.
var rulesWithScripts = []int{
	1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25,
	27, 28, 33, 34, 38, 39, 40, 41,
}

func TestEveryRuleHasAScript(t *testing.T) {
	var named []int
	for _, path := range scriptPaths(t) {
		script, err := Load(path)
		require.NoError(t, err)
		assert.NotEmpty(t, script.Rules, "%s names no rule", path)
		named = append(named, script.Rules...)
	}
	for _, rule := range rulesWithScripts {
		assert.True(t, slices.Contains(named, rule), "no script names rule %d", rule)
	}
}
