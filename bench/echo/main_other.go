//go:build !linux

package main

import (
	"fmt"
	"os"
)

// The loop is recvmmsg and sendmmsg, which only Linux has.
func main() {
	fmt.Fprintln(os.Stderr, "echo: needs Linux")
	os.Exit(1)
}
