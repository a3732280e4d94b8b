package data

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
)

// Order is a random order of all services, always the same one: no name is asked twice
// before all others were, which is the worst for caches.
func (f Fleet) Order() []int { return rand.New(rand.NewPCG(1, 2)).Perm(f.Services) }

// Queries writes a question for A of every name in that order, as dnsperf reads them.
func (f Fleet) Queries(w io.Writer) error {
	b := bufio.NewWriter(w)
	for _, i := range f.Order() {
		fmt.Fprintf(b, "%s A\n", f.Host(i))
	}
	return b.Flush()
}
