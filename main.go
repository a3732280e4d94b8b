// Command meshdns is an authoritative DNS server that gives every service of a mesh one
// name, wherever its endpoints run. Everything that it can do is in package cli.
package main

import (
	"context"
	"os"

	"github.com/meshdns/meshdns/cli"
)

func main() {
	os.Exit(cli.Run(context.Background(), cli.Env{
		Args:   os.Args[1:],
		Stdout: os.Stdout,
		Stderr: os.Stderr,
	}))
}
