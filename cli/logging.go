package cli

import (
	"fmt"
	"io"
	"log/slog"

	"github.com/spf13/cobra"
)

// logging are the flags that say how to log.
type logging struct {
	format string
	level  slog.Level
}

func (l *logging) addFlags(cmd *cobra.Command) {
	l.format = "text"
	cmd.Flags().Var((*logFormat)(&l.format), "log-format", "text or json")
	cmd.Flags().TextVar(&l.level, "log-level", slog.LevelInfo, "debug, info, warn or error")
}

// logger writes to w in the chosen way.
func (l *logging) logger(w io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: l.level}
	if l.format == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

// logFormat is the value of --log-format.
type logFormat string

// String implements pflag.Value.
func (f *logFormat) String() string { return string(*f) }

// Type implements pflag.Value.
func (*logFormat) Type() string { return "format" }

// Set implements pflag.Value.
func (f *logFormat) Set(s string) error {
	if s != "text" && s != "json" {
		return fmt.Errorf("%q is neither text nor json", s)
	}
	*f = logFormat(s)
	return nil
}
