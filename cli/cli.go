// Package cli is the command line: it reads arguments, puts the parts of the server
// together and turns signals into a graceful end. It is the only package that knows all
// others.
//
//	cli.go      Run, the commands
//	exit.go     errors → exit codes
//	output.go   -o text|json, tables
//	logging.go  --log-format, --log-level
//
// What `serve` does, step by step:
//
//	serve.go      flags; sockets opened, parts started, the end in order
//	load.go       file, or a kubeconfig's contexts → configuration
//	collector.go  the garbage collector, and memory that only the start needed
//	wire.go       configuration → resolver, zones, answers, sources; all of it again
//	              when it changes
//	fleet.go      the sources that run; one that changes hands over to its successor
//	reload.go     a changed configuration is taken up whole, or refused
//	lifecycle.go  signals, readiness, drain
//	adapt.go      resolver and zones as the admin API and the metrics want to see them
//	glue.go       addresses of the name servers of our own zones
//	demo.go       serve --demo
//
// One file for each other command: check.go, resolve.go, explain.go, export.go, status.go,
// version.go; explain, export and status ask a running server (adminclient.go).
package cli

import (
	"context"
	"errors"
	"io"
	"os"

	"github.com/spf13/cobra"
)

// Env is what a command sees of the process that it runs in.
type Env struct {
	Args           []string // without the program's name
	Stdout, Stderr io.Writer
	// Signals replaces the process's own SIGTERM, SIGINT and SIGHUP where it is set.
	Signals <-chan os.Signal
}

// Run runs one command and returns the exit code: 0 fine, 1 the thing asked for failed, 2
// wrong usage. The end of ctx is taken as SIGTERM.
func Run(ctx context.Context, env Env) int {
	root := newRoot(env)
	cmd, err := root.ExecuteContextC(ctx)
	return finish(env.Stderr, cmd, err)
}

func newRoot(env Env) *cobra.Command {
	root := &cobra.Command{
		Use:   "meshdns",
		Short: "Authoritative DNS for service meshes",
		Long: `meshdns gives every service of a mesh one DNS name, wherever its endpoints run:
in several Kubernetes clusters, behind other DNS names, on virtual machines.

To see it at work without a cluster: meshdns serve --demo`,
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
		RunE: func(cmd *cobra.Command, _ []string) error {
			_ = cmd.Help()
			return errors.New("a command is missing")
		},
	}
	root.SetArgs(env.Args)
	root.SetOut(env.Stdout)
	root.SetErr(env.Stderr)
	root.AddCommand(
		newServe(env.Signals), newCheck(), newResolve(), newExplain(), newExport(), newStatus(), newVersion(),
	)
	return root
}
