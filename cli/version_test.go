package cli

import (
	"encoding/json"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestVersion(t *testing.T) {
	got := run(t, "version")
	assert.Equal(t, 0, got.code)
	assert.True(t, strings.HasPrefix(got.stdout, "meshdns "), got.stdout)
	assert.Contains(t, got.stdout, runtime.Version())

	got = run(t, "version", "-o", "json")
	assert.Equal(t, 0, got.code)
	var b build
	require.NoError(t, json.Unmarshal([]byte(got.stdout), &b))
	assert.Equal(t, runtime.Version(), b.Go)
}

func TestBuildOf(t *testing.T) {
	info := &debug.BuildInfo{
		Main: debug.Module{Version: "v0.1.0"},
		Settings: []debug.BuildSetting{
			{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.time", Value: "2026-03-01T12:00:00Z"}, {Key: "vcs.modified", Value: "true"},
		},
	}
	var out strings.Builder
	require.NoError(t, buildOf("", info).print(&out))
	assert.Contains(t, out.String(), "meshdns v0.1.0 ")
	assert.Contains(t, out.String(), "revision abc of 2026-03-01T12:00:00Z, modified\n")

	assert.Equal(t, "v9", buildOf("v9", info).Version, "the linker's word goes first")
	assert.Equal(t, "(devel)", buildOf("", &debug.BuildInfo{}).Version)
}
