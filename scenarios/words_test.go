package scenarios

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSplit(t *testing.T) {
	for _, test := range []struct {
		text, bare string
		words      []string
	}{
		{"query web.mesh A", "query web.mesh A", []string{"query", "web.mesh", "A"}},
		{`reason~"not ready" x`, `reason~"not ready" x`, []string{"reason~not ready", "x"}},
		{"is POS  # a comment", "is POS", []string{"is", "POS"}},
		{"a#b", "a#b", []string{"a#b"}},
		{`x TXT "1.0.0"`, `x TXT "1.0.0"`, []string{"x", "TXT", "1.0.0"}},
		{`body ""`, `body ""`, []string{"body", ""}},
		{`body "# no comment"`, `body "# no comment"`, []string{"body", "# no comment"}},
	} {
		words, bare, err := split(test.text)
		require.NoError(t, err)
		assert.Equal(t, test.words, words, test.text)
		assert.Equal(t, test.bare, bare, test.text)
	}
	_, _, err := split(`body "open`)
	assert.ErrorContains(t, err, "quote")
}

func TestSpan(t *testing.T) {
	for _, test := range []struct {
		text    string
		in, out int64
	}{
		{"5", 5, 6}, {">=5", 500, 4}, {"<=5", -1, 6}, {"5..9", 9, 10}, {"5..9", 5, 4},
	} {
		assert.NoError(t, wantSpan("x", test.text, test.in), test.text)
		assert.Error(t, wantSpan("x", test.text, test.out), test.text)
	}
	for _, bad := range []string{"", "many", "5..x", ">="} {
		assert.Error(t, wantSpan("x", bad, 5), bad)
	}
}

func TestSettings(t *testing.T) {
	set, rest, err := parseSettings([]string{"a", "count=3", "b"}, "count")
	require.NoError(t, err)
	assert.Equal(t, []string{"a", "b"}, rest)
	n, err := set.number("count", 1)
	require.NoError(t, err)
	assert.Equal(t, 3, n)
	_, _, err = parseSettings([]string{"cuont=3"}, "count")
	assert.ErrorContains(t, err, "cuont")
}

func TestExpand(t *testing.T) {
	text, err := expand("a ${dns} $x ${dns}", map[string]string{"dns": "127.0.0.1:1"})
	require.NoError(t, err)
	assert.Equal(t, "a 127.0.0.1:1 $x 127.0.0.1:1", text)
	_, err = expand("${nosuch}", nil)
	assert.ErrorContains(t, err, "${nosuch}")
}

func TestParse(t *testing.T) {
	script, err := Parse("x/y.txtar", []byte(`# Rules 4, 5 and 8, rule 33; C01, C166.

query web.mesh A   # why
  is POS
	addresses 192.0.2.1

no-pairs
-- config.yaml --
site: c1
`))
	require.NoError(t, err)
	assert.Equal(t, []int{4, 5, 8, 33}, script.Rules)
	assert.Equal(t, []string{"C01", "C166"}, script.Cases)
	require.Len(t, script.Steps, 2)
	assert.Equal(t, 3, script.Steps[0].Number)
	require.Len(t, script.Steps[0].Body, 2)
	assert.Equal(t, 5, script.Steps[0].Body[1].Number)
	assert.Equal(t, []string{"addresses", "192.0.2.1"}, script.Steps[0].Body[1].Words)
	require.Len(t, script.Files, 1)
	assert.Equal(t, "config.yaml", script.Files[0].Name)
}

func TestParseErrors(t *testing.T) {
	for text, want := range map[string]string{
		"  is POS\n":                "y.txtar:1: an indented line",
		"query a A\n  body \"x\n":   "y.txtar:2: a quote",
		"# nothing but a comment\n": "no steps",
	} {
		_, err := Parse("x/y.txtar", []byte(text))
		assert.ErrorContains(t, err, want)
	}
}
