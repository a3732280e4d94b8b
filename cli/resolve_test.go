package cli

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestResolve(t *testing.T) {
	s := startServe(t, "--demo")
	_, _ = s.stdout.await(0, "Documents")
	tests := []struct {
		args   string
		code   int
		stdout string // a pattern
		stderr string
	}{
		{"bar.mesh", 0, `^(bar\.mesh\.\t5\tIN\tA\t192\.0\.2\.3[12]\n){2}$`, ""},
		{"BAR.mesh. a", 0, `^((?i)bar\.mesh\.\t5\tIN\tA\t192\.0\.2\.3[12]\n){2}$`, ""},
		{"baz.mesh srv", 0, `^(baz\.mesh\.\t5\tIN\tSRV\t0 0 7654 203-0-113-1[12]\.clusterx\.baz\.mesh\.\n){2}$`, ""},
		{"bar.mesh AAAA", 1, `^$`, "bar.mesh AAAA: NODATA: the name exists, without records of this type"},
		{"absent.mesh", 1, `^$`, "absent.mesh A: NXDOMAIN: the name does not exist"},
		{"example.org", 1, `^$`, "example.org A: REFUSED: the server is not responsible for the name"},
		{"bar..mesh", 2, `^$`, "empty label"},
		{"bar.mesh NOTYPE", 2, `^$`, `"NOTYPE" is not a record type`},
	}
	for _, test := range tests {
		args := append(append([]string{"resolve"}, strings.Fields(test.args)...), "--server", s.dns.String())
		got := run(t, args...)
		assert.Equal(t, test.code, got.code, test.args)
		assert.Regexp(t, regexp.MustCompile(test.stdout), got.stdout, test.args)
		assert.Contains(t, got.stderr, test.stderr, test.args)
	}

	got := run(t, "resolve", "foo.mesh", "-o", "json", "--server", s.dns.String())
	assert.Equal(t, 0, got.code)
	var r resolution
	require.NoError(t, json.Unmarshal([]byte(got.stdout), &r))
	assert.Equal(t, "NOERROR", r.Rcode)
	assert.True(t, r.Authoritative)
	assert.Len(t, r.Answers, 2)
}

func TestResolveSaysWhyNot(t *testing.T) {
	f := newFolder(t, map[string]string{"meshdns.yaml": "clusters: [{name: north, kubeconfig: absent}]\n"})
	s := startServe(t, "--config", f.path("meshdns.yaml"))
	got := run(t, "resolve", "api.shop.svc.cluster.north", "--server", s.dns.String(), "-o", "json")
	assert.Equal(t, 1, got.code)
	assert.Contains(t, got.stdout, `"rcode": "SERVFAIL"`)
	assert.Contains(t, got.stdout, `"answers": []`)
	assert.Contains(t, got.stderr, "SERVFAIL: the server cannot say at the moment; 14 (Not Ready)")
}

func TestServerAddress(t *testing.T) {
	for text, want := range map[string]string{
		"192.0.2.1":          "192.0.2.1:53",
		"192.0.2.1:5354":     "192.0.2.1:5354",
		"2001:db8::1":        "[2001:db8::1]:53",
		"[2001:db8::1]":      "[2001:db8::1]:53",
		"[2001:db8::1]:5354": "[2001:db8::1]:5354",
	} {
		got, err := serverAddress(t.Context(), text)
		require.NoError(t, err, text)
		assert.Equal(t, want, got.String(), text)
	}
	for _, text := range []string{"", ":53", "192.0.2.1:nope", "192.0.2.1:70000"} {
		_, err := serverAddress(t.Context(), text)
		assert.ErrorAs(t, err, new(usageError), text)
	}
}
