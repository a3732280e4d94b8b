package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/meshdns/meshdns/api"
)

func newExplain() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "explain NAME [TYPE]",
		Short: "Say why a running server answers a name as it does",
		Long: `Ask a running server why it answers a name as it does: which zone and rule decide,
and for every address that could be in the answer why it is, or is not.
TYPE is A unless given.`,
		Args: cobra.RangeArgs(1, 2),
	}
	out := addFormat(cmd)
	adminURL := addAdmin(cmd)
	client := cmd.Flags().String("client", "", "IP `address` of the client whose question it is")
	cmd.RunE = runner(func(cmd *cobra.Command, args []string) error {
		asked := url.Values{"name": {args[0]}}
		if len(args) == 2 {
			asked.Set("type", args[1])
		}
		if *client != "" {
			if _, err := netip.ParseAddr(*client); err != nil {
				return usagef("--client %q is not an IP address", *client)
			}
			asked.Set("client", *client)
		}
		from, err := newAdminClient(*adminURL)
		if err != nil {
			return err
		}
		return explain(cmd.Context(), from, asked, *out, cmd.OutOrStdout())
	})
	return cmd
}

func explain(ctx context.Context, from *adminClient, asked url.Values, out format, w io.Writer) error {
	var e api.Explanation
	err := from.get(ctx, "/api/v1/explain", asked, &e)
	var refused *refusal
	if errors.As(err, &refused) && refused.code == http.StatusBadRequest {
		return usageError{err}
	}
	if err != nil {
		return err
	}
	if out == formatJSON {
		return writeJSON(w, e)
	}
	return printExplanation(w, e)
}

func printExplanation(w io.Writer, e api.Explanation) error {
	zone := "in none of the server's zones"
	if e.Zone != "" {
		zone = "zone " + e.Zone
	}
	fmt.Fprintf(w, "%s %s: %s, %s\n", printable(e.Name), e.Type, e.Rcode, printable(zone))
	for i, step := range e.Steps {
		fmt.Fprintf(w, "%3d. %s\n", i+1, printable(step))
	}
	if len(e.Endpoints) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	return table(w, endpointRows(e.Endpoints))
}

// backendOf is the backend and, behind it, the names of this server that lead to the
// address.
func backendOf(e api.Endpoint) string {
	if len(e.Via) == 0 {
		return e.Backend
	}
	return e.Backend + " via " + strings.Join(e.Via, " > ")
}

func endpointRows(endpoints []api.Endpoint) [][]string {
	rows := [][]string{{"ADDRESS", "PORT", "ANSWERED", "STATE", "CLUSTER", "BACKEND", "HOST", "WEIGHT", "WHY"}}
	for _, e := range endpoints {
		port, answered := "-", "no"
		if e.Port != 0 {
			port = strconv.Itoa(e.Port)
		}
		if e.Included {
			answered = "yes"
		}
		rows = append(rows, []string{
			e.Address, port, answered, e.State, dash(e.Cluster), dash(backendOf(e)), dash(e.Hostname),
			strconv.Itoa(e.Weight), e.Reason,
		})
	}
	return rows
}
