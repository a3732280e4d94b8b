package cli

import (
	"context"
	"io"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/meshdns/meshdns/names"
)

func newExport() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "export ZONE",
		Short: "Print a zone of a running server as a zone file",
		Long: `Print a zone of a running server as a zone file (RFC 1035), as it is at this moment:
SOA, NS, then all names with records in canonical order. The status page lists the zones.
A name that the server cannot answer now is a comment, since it is not known to be absent.
Names whose data are from DNS backends have the TTL that they have left.`,
		Args: cobra.ExactArgs(1),
	}
	adminURL := addAdmin(cmd)
	cmd.RunE = runner(func(cmd *cobra.Command, args []string) error {
		zone, err := names.Parse(args[0])
		if err != nil {
			return usageError{err}
		}
		from, err := newAdminClient(*adminURL)
		if err != nil {
			return err
		}
		return export(cmd.Context(), from, zone, cmd.OutOrStdout())
	})
	return cmd
}

func export(ctx context.Context, from *adminClient, zone names.Name, w io.Writer) error {
	return from.copy(ctx, "/api/v1/zones/"+url.PathEscape(zone.Text()), "text/dns", w)
}
