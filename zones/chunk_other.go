//go:build !linux

package zones

// makeChunk returns n zero bytes.
func makeChunk(n int) []byte { return make([]byte, n) }
