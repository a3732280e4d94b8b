//go:build !linux

package main

import (
	"fmt"
	"os"
)

// Processor time comes from /proc and programs are bound to processors: Linux only.
func main() {
	fmt.Fprintln(os.Stderr, "peers: needs Linux")
	os.Exit(1)
}
