package zones

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// hugePage is what the system may map at once, in bytes.
const hugePage = 2 << 20

// makeChunk returns n zero bytes. Of large chunks the system is asked to map huge pages
// (madvise(2)): most of what a lookup among a million names waits for are the page
// tables. Where it cannot, nothing is lost but that.
func makeChunk(n int) []byte {
	chunk := make([]byte, n)
	if n < hugePage {
		return chunk
	}
	page := uintptr(os.Getpagesize())
	begin := uintptr(unsafe.Pointer(&chunk[0]))
	skip := (begin+page-1)&^(page-1) - begin
	_ = unix.Madvise(chunk[skip:uintptr(n)&^(page-1)], unix.MADV_HUGEPAGE)
	return chunk
}
