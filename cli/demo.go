package cli

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/meshdns/meshdns/config"
	"github.com/meshdns/meshdns/demo"
	"github.com/meshdns/meshdns/server"
)

// demoPatience is how long the demo waits for its own files before it prints what to
// try. They are read in milliseconds; a machine that is slower than that prints anyway.
const demoPatience = 5 * time.Second

// serveDemo serves the embedded documents from a temporary folder, so that they can be
// edited, and the zone that foo.mesh stands on from a second, smaller server.
func serveDemo(ctx context.Context, f *serveFlags, l *loader, signals <-chan os.Signal, log *slog.Logger, stdout io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "meshdns-demo-")
	if err != nil {
		return fmt.Errorf("the demo needs a folder for its documents (TMPDIR says where): %w", err)
	}
	defer os.RemoveAll(dir)
	if err := demo.Write(dir); err != nil {
		return err
	}
	other, err := startElsewhere(ctx, filepath.Join(dir, demo.Elsewhere), slog.New(slog.DiscardHandler))
	if err != nil {
		return fmt.Errorf("the demo's other DNS server: %w", err)
	}
	defer func() { err = other.end(err) }()
	l.path = filepath.Join(dir, demo.Mesh)
	l.adjust = func(cfg *config.Config) {
		f.override(cfg)
		cfg.Upstreams = []config.Upstream{{Addr: other.listeners.Addresses()[0]}}
	}
	return serveLoaded(ctx, f, l, signals, log, func(ctx context.Context, r *running) {
		r.awaitReady(ctx, demoPatience)
		printDemo(stdout, r, filepath.Dir(l.path))
	})
}

// elsewhere is the DNS server that stands for somebody else's: a second instance of our
// own, with a zone and a port of its own.
type elsewhere struct {
	*mesh
	listeners *server.Listeners
	group     errgroup.Group
	stop      context.CancelFunc
}

func startElsewhere(ctx context.Context, path string, log *slog.Logger) (*elsewhere, error) {
	l := &loader{path: path, adjust: func(cfg *config.Config) { cfg.Listen.DNS = []string{"127.0.0.1:0"} }}
	cfg, err := l.load()
	if err != nil {
		return nil, err
	}
	m, err := newMesh(cfg.Config, nil, log)
	if err != nil {
		return nil, err
	}
	e := &elsewhere{mesh: m}
	if e.listeners, err = listenDNS(cfg.Config, m.answers, nil, log); err != nil {
		return nil, err
	}
	ctx, e.stop = context.WithCancel(context.WithoutCancel(ctx))
	e.group.Go(func() error { return m.run(ctx) })
	if err := m.apply(ctx, cfg.Config, ""); err != nil {
		return nil, e.end(err)
	}
	m.awaitReady(ctx, demoPatience)
	return e, nil
}

// end ends the server; err, if any, is what the caller has to say.
func (e *elsewhere) end(err error) error {
	closed := e.listeners.Close()
	e.stop()
	failed := e.group.Wait()
	e.fleet.close()
	for _, own := range []error{closed, failed} {
		if err == nil {
			err = own
		}
	}
	return err
}

// printDemo prints what to try.
func printDemo(w io.Writer, r *running, dir string) {
	at := r.listeners.Addresses()[0]
	fmt.Fprintf(w, "meshdns demo: clusters clusterx and clustery, and four registered names.\nTry, in another terminal:\n\n")
	lines := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, q := range demo.Questions() {
		fmt.Fprintf(lines, "dig @%s -p %d %s %s\t# %s\n", reachable(at), at.Port(), q.Name, q.Type, q.About)
	}
	_ = lines.Flush() // a closed standard output is no reason to stop serving
	if url := r.adminURL(); url != "" {
		fmt.Fprintf(w, "\nWhy an answer is as it is, unready endpoints included:\n\n")
		fmt.Fprintf(w, "meshdns explain --admin %s my-svc.my-ns.svc.cluster.global\n", url)
		fmt.Fprintf(w, "\nStatus page: %s/\n", url)
	}
	fmt.Fprintf(w, "\nDocuments, to look at and to edit: %s\n", dir)
}

// reachable is an address that this machine can ask, of one that may stand for all.
func reachable(at netip.AddrPort) netip.Addr {
	switch addr := at.Addr(); {
	case addr.IsValid() && !addr.IsUnspecified():
		return addr
	case addr.Is6():
		return netip.IPv6Loopback()
	default:
		return netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
}
