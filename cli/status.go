package cli

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/meshdns/meshdns/admin"
	"github.com/meshdns/meshdns/api"
)

func newStatus() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show how a running server's sources are doing",
		Long: `Show whether a running server is ready, and how each of its sources is doing:
syncing (no whole first list yet), fresh, stale (failing, its last data are served)
or failed (failing for longer than its data may be kept).`,
		Args: cobra.NoArgs,
	}
	out := addFormat(cmd)
	adminURL := addAdmin(cmd)
	cmd.RunE = runner(func(cmd *cobra.Command, _ []string) error {
		client, err := newAdminClient(*adminURL)
		if err != nil {
			return err
		}
		return status(cmd.Context(), client, *out, cmd.OutOrStdout())
	})
	return cmd
}

func addAdmin(cmd *cobra.Command) *string {
	return cmd.Flags().String("admin", defaultAdmin, "admin API of the server to ask")
}

func status(ctx context.Context, client *adminClient, out format, w io.Writer) error {
	var list []api.Source
	if err := client.get(ctx, "/api/v1/sources", nil, &list); err != nil {
		return err
	}
	if out == formatJSON {
		return writeJSON(w, list)
	}
	var state admin.State
	if err := client.get(ctx, "/readyz", nil, &state, http.StatusServiceUnavailable); err != nil {
		return err
	}
	fmt.Fprintln(w, stateLine(state))
	return table(w, sourceRows(list, time.Now()))
}

func stateLine(s admin.State) string {
	switch {
	case s.Ready:
		return "ready"
	case s.Stopping:
		return "stopping"
	default:
		return "not ready, waiting for " + strings.Join(s.Waiting, ", ")
	}
}

func sourceRows(list []api.Source, now time.Time) [][]string {
	rows := [][]string{{"SOURCE", "KIND", "STATE", "FOR", "LAST SUCCESS", "SERVICES", "ENDPOINTS", "SKIPPED", "REFUSED", "ERROR"}}
	for _, s := range list {
		success := "never"
		if s.LastSuccess != nil {
			success = since(now, *s.LastSuccess) + " ago"
		}
		rows = append(rows, []string{
			s.Name, s.Kind, string(s.State), since(now, s.Since), success,
			strconv.Itoa(s.Services), strconv.Itoa(s.Endpoints), strconv.Itoa(s.Skipped), strconv.Itoa(s.Refused),
			remark(s),
		})
	}
	return rows
}

// remark is a source's error, else why it last left something out.
func remark(s api.Source) string {
	if s.LastError == "" && s.LastSkip != "" {
		return "left out: " + s.LastSkip
	}
	return dash(s.LastError)
}
