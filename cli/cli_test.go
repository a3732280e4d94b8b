package cli

import (
	"bytes"
	"encoding/json"
	"flag"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the golden files anew")

// ran is what came of a command.
type ran struct {
	code           int
	stdout, stderr string
}

// run runs a command in this process.
func run(t *testing.T, args ...string) ran {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code := Run(t.Context(), Env{Args: args, Stdout: &stdout, Stderr: &stderr})
	return ran{code: code, stdout: stdout.String(), stderr: stderr.String()}
}

// golden compares got with testdata/name.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err, "go test -update writes it")
	assert.Equal(t, string(want), got, path)
}

// The help texts as they are: a changed flag or default is seen in review.
func TestHelp(t *testing.T) {
	root := newRoot(Env{})
	commands := []string{""}
	for _, command := range root.Commands() {
		if !command.Hidden && command.Name() != "help" {
			commands = append(commands, command.Name())
		}
	}
	for _, command := range commands {
		args := append(strings.Fields(command), "--help")
		got := run(t, args...)
		assert.Equal(t, 0, got.code, command)
		assert.Empty(t, got.stderr, command)
		golden(t, "help"+command+".txt", got.stdout)
	}
}

func TestWrongUsage(t *testing.T) {
	tests := []struct {
		args   string
		stderr []string
	}{
		{"", []string{"meshdns: a command is missing", "Try 'meshdns --help'."}},
		{"serv", []string{`unknown command "serv"`, "serve", "Try 'meshdns --help'."}},
		{"version extra", []string{`unknown command "extra"`, "Try 'meshdns version --help'."}},
		{"version --nope", []string{"unknown flag: --nope", "Try 'meshdns version --help'."}},
		{"version -o yaml", []string{`"yaml" is neither text nor json`}},
		{"status --admin ftp://x", []string{`--admin "ftp://x" is not a URL such as http://127.0.0.1:9253`}},
		{"explain", []string{"accepts between 1 and 2 arg(s), received 0", "Try 'meshdns explain --help'."}},
		{"explain foo.mesh --client here", []string{`--client "here" is not an IP address`}},
	}
	for _, test := range tests {
		got := run(t, strings.Fields(test.args)...)
		assert.Equal(t, 2, got.code, test.args)
		for _, want := range test.stderr {
			assert.Contains(t, got.stderr, want, test.args)
		}
	}
}

func TestLogging(t *testing.T) {
	var out bytes.Buffer
	l := logging{format: "json", level: slog.LevelWarn}
	l.logger(&out).Info("quiet")
	l.logger(&out).Warn("loud", "name", "a\nb")
	var line map[string]any
	require.NoError(t, json.Unmarshal(out.Bytes(), &line))
	assert.Equal(t, "loud", line["msg"])

	out.Reset()
	l.format = "text"
	l.logger(&out).Warn("loud", "name", "a\nb")
	assert.Contains(t, out.String(), `msg=loud name="a\nb"`)
}

func TestPrintable(t *testing.T) {
	for in, want := range map[string]string{
		"my-svc":         "my-svc",
		"naïve ✓":        "naïve ✓",
		"\x1b[31mred":    `\x1b[31mred`,
		"two\nlines\tup": `two\nlines\tup`,
	} {
		assert.Equal(t, want, printable(in))
	}
}
