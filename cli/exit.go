package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// Exit codes, a contract with scripts.
const (
	exitOK     = 0
	exitFailed = 1 // the thing asked for failed
	exitUsage  = 2 // what was asked for makes no sense
)

// failure is an error of a command that was asked for rightly.
type failure struct{ error }

func (f failure) Unwrap() error { return f.error }

// usageError is what a command says of its own arguments.
type usageError struct{ error }

func (u usageError) Unwrap() error { return u.error }

func usagef(format string, args ...any) error {
	return usageError{fmt.Errorf(format, args...)}
}

// errSilent fails a command that has said already what went wrong.
var errSilent = errors.New("failed")

// runner is what cobra calls. All errors that don't come out of one are about flags and
// arguments, so that only these need marking.
func runner(run func(cmd *cobra.Command, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		err := run(cmd, args)
		if err == nil || errors.As(err, new(usageError)) {
			return err
		}
		return failure{err}
	}
}

// finish prints err, if there is something to print, and chooses the exit code.
func finish(stderr io.Writer, cmd *cobra.Command, err error) int {
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errSilent):
		return exitFailed
	case errors.As(err, new(failure)):
		fmt.Fprintf(stderr, "meshdns: %v\n", err)
		return exitFailed
	default:
		message := strings.TrimSpace(err.Error())
		fmt.Fprintf(stderr, "meshdns: %s\nTry '%s --help'.\n", message, cmd.CommandPath())
		return exitUsage
	}
}
