package harness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// panicVariable has the test binary start a process and panic.
const panicVariable = "MESHDNS_E2E_TEST_PANIC"

// TestNoLeftovers: processes end with a test that panics, without any cleanup.
func TestNoLeftovers(t *testing.T) {
	if os.Getenv(panicVariable) != "" {
		startAndPanic()
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestNoLeftovers$")
	cmd.Env = append(os.Environ(), panicVariable+"=1")
	out, err := cmd.CombinedOutput()
	require.Error(t, err)
	_, after, found := strings.Cut(string(out), "started ")
	require.True(t, found, "%s", out)
	var pid int
	_, err = fmt.Sscan(after, &pid)
	require.NoError(t, err)
	require.NoError(t, Poll(t.Context(), 5*time.Second, func() error {
		if running(pid) {
			return errors.New("the child outlived the test")
		}
		return nil
	}))
}

func startAndPanic() {
	env, err := New(&bytes.Buffer{})
	if err != nil {
		panic(err)
	}
	os.RemoveAll(env.dir) // nobody else will
	env.dir = os.TempDir()
	process, err := env.start(command{name: "sleeper", path: "/bin/sleep", args: []string{"1000"}})
	if err != nil {
		panic(err)
	}
	os.Remove(process.LogPath)
	fmt.Println("started", process.cmd.Process.Pid)
	panic("on purpose")
}

// running tells whether a process exists and is no zombie.
func running(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z")
}

// TestStop: a process is asked first, its output kept; one that has ended says why.
func TestStop(t *testing.T) {
	env, err := New(&bytes.Buffer{})
	require.NoError(t, err)
	defer env.Close()
	polite, err := env.start(command{name: "polite", path: "/bin/sh",
		args: []string{"-c", "trap 'echo bye; exit 3' TERM; echo ready; while :; do sleep 0.01; done"}})
	require.NoError(t, err)
	require.NoError(t, polite.await(context.Background(), startWithin, func() error {
		if polite.Tail(1) != "ready" {
			return errors.New("not yet")
		}
		return nil
	}))
	require.NoError(t, polite.Stop())
	require.NoError(t, polite.Stop())
	require.Equal(t, 3, polite.Exit())
	require.Equal(t, "ready\nbye", polite.Tail(5))

	failing, err := env.start(command{name: "failing", path: "/bin/sh", args: []string{"-c", "echo the reason; exit 1"}})
	require.NoError(t, err)
	err = failing.await(context.Background(), startWithin, func() error { return errors.New("not yet") })
	require.ErrorContains(t, err, "the reason")
}
