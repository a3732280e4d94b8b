package scenarios

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// shell writes an executable script.
func shell(t *testing.T, body string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "program")
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"+body+"\n"), 0o755))
	return path
}

// TestServerEnds: a program that ends instead of serving is found at once, and its last
// words are shown.
func TestServerEnds(t *testing.T) {
	script, err := Parse("test.txtar", []byte("query web.mesh A\n"))
	require.NoError(t, err)
	binary := shell(t, "echo the last words >&2; exit 3")
	err = Run(t.Context(), Config{Binary: binary, Ports: NewPorts(), Dir: t.TempDir()}, script)
	assert.ErrorContains(t, err, "the server has ended: exit status 3")
	assert.ErrorContains(t, err, "the last words")
}

func TestStop(t *testing.T) {
	for body, want := range map[string]string{
		"trap 'exit 0' TERM; echo started; while :; do read x; done":                          "",
		"trap 'exit 4' TERM; echo started; while :; do read x; done":                          "ended badly: exit status 4",
		"trap 'echo WARNING: DATA RACE; exit 0' TERM; echo started; while :; do read x; done": "data race",
	} {
		p := startShell(t, body)
		err := p.Stop()
		if want == "" {
			assert.NoError(t, err)
		} else {
			assert.ErrorContains(t, err, want)
		}
		assert.Error(t, p.Running())
	}
}

// startShell starts a program whose standard input stays open, and waits until it has
// said that it started.
func startShell(t *testing.T, body string) *process {
	t.Helper()
	reader, writer, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { reader.Close(); writer.Close() })
	cmd, err := command(t.Context(), "", shell(t, body), nil)
	require.NoError(t, err)
	cmd.Stdin = reader
	p, err := newProcess(cmd)
	require.NoError(t, err)
	require.NoError(t, until(t.Context(), startPatience, func() error {
		return matchAll("log", p.Log(), []string{"started"})
	}))
	return p
}

// TestFilesAndPrograms: steps that need no server.
func TestFilesAndPrograms(t *testing.T) {
	text := lines(
		"copy one.txt sub/two.txt",
		"link sub/two.txt three.txt",
		`run -c "cat three.txt; echo oops >&2; exit 3"`,
		"  exit 3",
		"  stdout ^hello$",
		"  stderr oops",
		"  not-stdout oops",
		"remove one.txt",
		`run -c "ls -A"`,
		"  not-stdout one.txt",
		"-- one.txt --",
		"hello",
	)
	require.NoError(t, runShell(t, text))
	for text, want := range map[string]string{
		`run -c "exit 1"`:                       "exit code: want 0, got 1",
		"run -c \"echo x\"\n  stdout y":         "stdout does not match",
		"run -c \"echo x\"\n  not-stdout x":     "must not match",
		"copy nothing there":                    "no such file",
		"remove ../x":                           "outside of the work folder",
		"copy f ../x\n-- f --":                  "outside of the work folder",
		"endpoints f.yaml api count=1 from=::1": "want NAMESPACE/SERVICE",
		"endpoints f.yaml a/b count=x from=::1": "is no number",
		"stop":                                  "no server runs",
		"upstream u\n  nonsense":                "want record, soa or on",
		"release u":                             "want the name of an upstream",
	} {
		assert.ErrorContains(t, runShell(t, text+"\n"), want, text)
	}
}

func runShell(t *testing.T, text string) error {
	t.Helper()
	script, err := Parse("test.txtar", []byte(text))
	require.NoError(t, err)
	return Run(t.Context(), Config{Binary: "/bin/sh", Ports: NewPorts(), Dir: t.TempDir()}, script)
}

// TestReadmeExample: the guide's example is a script.
func TestReadmeExample(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	_, rest, _ := strings.Cut(string(readme), "```\n")
	example, _, found := strings.Cut(rest, "```\n")
	require.True(t, found)
	script, err := Parse("README.md", []byte(example))
	require.NoError(t, err)
	assert.Equal(t, []int{4}, script.Rules)
	assert.Len(t, script.Files, 2)
	f := &fakeServer{answer: answerFrom(t, "web.mesh. 5 IN A 192.0.2.10")}
	assert.NoError(t, runText(t, f, example))
}

// TestReadmeIsComplete: every step and expectation is described.
func TestReadmeIsComplete(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	steps, _ := (&run{}).steps()
	for name := range steps {
		assert.Contains(t, string(readme), "`"+name, "step")
	}
	for name := range expectations() {
		assert.Contains(t, string(readme), "`"+name, "expectation")
	}
}
