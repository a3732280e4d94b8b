package names

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParse(t *testing.T) {
	for _, c := range []struct{ in, out, err string }{
		{"foo.mesh", "foo.mesh.", ""},
		{"FOO.Mesh.", "foo.mesh.", ""},
		{".", ".", ""},
		{`a\.b.mesh`, `a\.b.mesh.`, ""},
		{`\065\255.x`, `a\255.x.`, ""},
		{"_http._tcp.x", "_http._tcp.x.", ""},
		{"", "", "empty name"},
		{"..", "", "empty label"},
		{".foo", "", "empty label"},
		{"a..b", "", "empty label"},
		{strings.Repeat("a", 63) + ".x", strings.Repeat("a", 63) + ".x.", ""},
		{strings.Repeat("a", 64) + ".x", "", "63 bytes"},
		{strings.Repeat("abcdefg.", 32), "", "255 bytes"},
		{`a\`, "", "escape"},
		{`a\25`, "", "escape"},
		{`a\256`, "", "escape"},
	} {
		n, err := Parse(c.in)
		if c.err != "" {
			require.ErrorContains(t, err, c.err, c.in)
			assert.True(t, n.IsZero())
			continue
		}
		require.NoError(t, err, c.in)
		assert.Equal(t, c.out, n.String())
	}
}

func TestRelations(t *testing.T) {
	zone, name := MustParse("cluster.global"), MustParse("api.shop.svc.cluster.global")
	assert.True(t, name.IsAtOrBelow(zone))
	assert.True(t, zone.IsAtOrBelow(zone))
	assert.True(t, name.IsAtOrBelow(Root))
	assert.False(t, MustParse("xcluster.global").IsAtOrBelow(zone), "by whole labels")
	assert.False(t, zone.IsAtOrBelow(name))
	assert.False(t, name.IsAtOrBelow(Name{}))
	relative, ok := name.Relative(zone)
	assert.True(t, ok)
	assert.Equal(t, "\x03api\x04shop\x03svc", relative)
	joined, err := zone.Join(relative)
	require.NoError(t, err)
	assert.Equal(t, name, joined)
	below, err := zone.Prepend("API", "shop", "svc")
	require.NoError(t, err)
	assert.Equal(t, name, below)
	assert.Equal(t, 5, name.NumLabels())
	assert.Equal(t, []string{"api", "shop", "svc", "cluster", "global"}, name.Labels())
	assert.Equal(t, "shop.svc.cluster.global", name.Parent().Text())
	_, err = zone.Prepend(strings.Repeat("a", 64))
	assert.Error(t, err)
}

func TestHostLabels(t *testing.T) {
	for label, ok := range map[string]bool{
		"web-0": true, "0": true, "a": true, "": false, "-a": false, "a-": false, "a_b": false, "a.b": false, "A": false,
		strings.Repeat("a", 63): true, strings.Repeat("a", 64): false,
	} {
		assert.Equal(t, ok, IsHostLabel(label), label)
	}
	for addr, label := range map[string]string{
		"192.0.2.1": "192-0-2-1", "2001:db8::1": "2001-db8--1", "::1": "0--1", "2001:db8::": "2001-db8--0", "::": "0--0",
	} {
		got := Dashed(netip.MustParseAddr(addr))
		assert.Equal(t, label, got)
		assert.True(t, IsHostLabel(got), got)
	}
}

// FuzzName: what can be read prints as text that reads as the same name, and its wire
// form as well.
func FuzzName(f *testing.F) {
	for _, s := range []string{"foo.mesh", `a\.b.c`, `\000.x`, ".", `A\@\$.;`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		n, err := Parse(text)
		if err != nil {
			return
		}
		again, err := Parse(n.String())
		require.NoError(t, err, n.String())
		require.Equal(t, n, again)
		fromWire, err := FromWire([]byte(n.Wire()))
		require.NoError(t, err)
		require.Equal(t, n, fromWire)
		require.LessOrEqual(t, len(n.Wire()), MaxName)
	})
}
