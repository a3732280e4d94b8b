package cli

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"

	"github.com/spf13/cobra"

	"github.com/meshdns/meshdns/names"
	"github.com/meshdns/meshdns/sources/dns"
)

const defaultServer = "127.0.0.1:5354"

// resolution is what resolve prints, and its JSON.
type resolution struct {
	Name           string       `json:"name"`
	Type           string       `json:"type"`
	Server         string       `json:"server"`
	Rcode          string       `json:"rcode"`
	Authoritative  bool         `json:"authoritative"`
	Answers        []dns.Record `json:"answers"`
	ExtendedErrors []string     `json:"extendedErrors"` // RFC 8914, as text
}

func newResolve() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "resolve NAME [TYPE]",
		Short: "Ask a DNS server for a name",
		Long: `Ask a DNS server for a name and print the records of the answer. TYPE is A unless
given. Fails when there is none: the name does not exist (NXDOMAIN), exists without
records of this type (NODATA), or the server could not say.`,
		Args: cobra.RangeArgs(1, 2),
	}
	out := addFormat(cmd)
	server := cmd.Flags().String("server", defaultServer, "`address` of the server to ask; the port is 53 where it is left out")
	cmd.RunE = runner(func(cmd *cobra.Command, args []string) error {
		q, err := parseQuestion(args)
		if err != nil {
			return err
		}
		address, err := serverAddress(cmd.Context(), *server)
		if err != nil {
			return err
		}
		reply, err := dns.NewClient(dns.ClientConfig{}).Exchange(cmd.Context(), q, address)
		if err != nil {
			return err
		}
		return newResolution(q, reply).print(*out, cmd.OutOrStdout(), cmd.ErrOrStderr())
	})
	return cmd
}

// parseQuestion reads NAME [TYPE].
func parseQuestion(args []string) (dns.Question, error) {
	name, err := names.Parse(args[0])
	if err != nil {
		return dns.Question{}, usageError{err}
	}
	text := "A"
	if len(args) == 2 {
		text = args[1]
	}
	typ, err := dns.TypeFromText(text)
	if err != nil {
		return dns.Question{}, usageError{err}
	}
	return dns.Question{Name: name, Type: typ}, nil
}

// serverAddress reads the value of --server: an IP address or a host name, with or
// without a port.
func serverAddress(ctx context.Context, text string) (netip.AddrPort, error) {
	if addr, err := netip.ParseAddr(strings.Trim(text, "[]")); err == nil {
		return netip.AddrPortFrom(addr, 53), nil
	}
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		host, port = text, "53"
	}
	number, err := net.DefaultResolver.LookupPort(ctx, "udp", port)
	if err != nil || host == "" {
		return netip.AddrPort{}, usagef("--server %q is not an address such as %s", text, defaultServer)
	}
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("looking up --server: %w", err)
	}
	return netip.AddrPortFrom(addrs[0].Unmap(), uint16(number)), nil // a port fits 16 bits
}

func newResolution(q dns.Question, reply *dns.Reply) resolution {
	return resolution{
		Name:           q.Name.Text(),
		Type:           dns.TypeText(q.Type),
		Server:         reply.Server.String(),
		Rcode:          reply.Rcode(),
		Authoritative:  reply.Authoritative(),
		Answers:        reply.Answer(),
		ExtendedErrors: append([]string{}, reply.ExtendedErrors()...),
	}
}

// print writes the answer to stdout. Without one it says why on stderr and returns
// errSilent.
func (r resolution) print(out format, stdout, stderr io.Writer) error {
	var err error
	if out == formatJSON {
		err = writeJSON(stdout, r)
	} else {
		err = r.printRecords(stdout)
	}
	if err != nil || r.found() {
		return err
	}
	fmt.Fprintf(stderr, "meshdns: %s %s: %s\n", r.Name, r.Type, r.why())
	return errSilent
}

// printRecords writes one record a line, as dig does.
func (r resolution) printRecords(w io.Writer) error {
	for _, rr := range r.Answers {
		if _, err := fmt.Fprintf(w, "%s\t%d\tIN\t%s\t%s\n", rr.Name+".", rr.TTL, rr.Type, printable(rr.Data)); err != nil {
			return err
		}
	}
	return nil
}

// found says whether the answer has a record of the asked type; an alias that leads to
// none is no answer.
func (r resolution) found() bool {
	for _, rr := range r.Answers {
		if r.Rcode == "NOERROR" && (rr.Type == r.Type || r.Type == "ANY") {
			return true
		}
	}
	return false
}

func (r resolution) why() string {
	said := map[string]string{
		"NOERROR":  "NODATA: the name exists, without records of this type",
		"NXDOMAIN": "NXDOMAIN: the name does not exist",
		"REFUSED":  "REFUSED: the server is not responsible for the name",
		"SERVFAIL": "SERVFAIL: the server cannot say at the moment",
	}[r.Rcode]
	if said == "" {
		said = r.Rcode
	}
	for _, text := range r.ExtendedErrors {
		said += "; " + printable(text)
	}
	return said
}
