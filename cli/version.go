package cli

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is set at release builds: -ldflags "-X …/cli.version=v1.2.3". Without it the Go
// tool's own knowledge counts.
var version string

// build is what is known of this binary, and the JSON of `version -o json`.
type build struct {
	Version  string `json:"version"`  // "(devel)" from a working tree
	Revision string `json:"revision"` // of the sources, "" when not known
	Modified bool   `json:"modified"` // the sources differ from the revision
	Time     string `json:"time"`     // of the revision, RFC 3339, "" when not known
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// thisBuild reads what the linker and the Go tool left in the binary.
func thisBuild() build {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	return buildOf(version, info)
}

func buildOf(version string, info *debug.BuildInfo) build {
	b := build{Version: info.Main.Version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	for _, setting := range info.Settings {
		switch setting.Key {
		case "vcs.revision":
			b.Revision = setting.Value
		case "vcs.time":
			b.Time = setting.Value
		case "vcs.modified":
			b.Modified = setting.Value == "true"
		}
	}
	if version != "" {
		b.Version = version
	}
	if b.Version == "" {
		b.Version = "(devel)"
	}
	return b
}

func newVersion() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Say which build this is",
		Args:  cobra.NoArgs,
	}
	out := addFormat(cmd)
	cmd.RunE = runner(func(cmd *cobra.Command, _ []string) error {
		if *out == formatJSON {
			return writeJSON(cmd.OutOrStdout(), thisBuild())
		}
		return thisBuild().print(cmd.OutOrStdout())
	})
	return cmd
}

func (b build) print(w io.Writer) error {
	_, err := fmt.Fprintf(w, "meshdns %s %s %s\n", b.Version, b.Go, b.Platform)
	if err != nil || b.Revision == "" {
		return err
	}
	modified := ""
	if b.Modified {
		modified = ", modified"
	}
	_, err = fmt.Fprintf(w, "revision %s of %s%s\n", b.Revision, b.Time, modified)
	return err
}
