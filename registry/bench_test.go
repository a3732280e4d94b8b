package registry

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The whole of a large folder, as at a start or in one file (CASES C119).
func BenchmarkDecode5000(b *testing.B) {
	var text strings.Builder
	for i := range 5000 {
		text.WriteString(static(fmt.Sprintf("s%d.mesh", i)) + "---\n")
	}
	data := []byte(text.String())
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		docs, _ := Decode("f.yaml", data, options())
		require.Len(b, docs, 5000)
	}
}

func BenchmarkConflicts5000(b *testing.B) {
	var texts []string
	for i := range 5000 {
		texts = append(texts, static(fmt.Sprintf("s%d.mesh", i)))
	}
	docs := set(b, texts...)
	b.ReportAllocs()
	for b.Loop() {
		require.Empty(b, Conflicts(docs, options()))
	}
}
