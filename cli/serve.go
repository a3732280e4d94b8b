package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/meshdns/meshdns/admin"
	"github.com/meshdns/meshdns/config"
	"github.com/meshdns/meshdns/metrics"
	"github.com/meshdns/meshdns/server"
)

const (
	// defaultDrain: a load balancer or a forwarder that probes every second or two has
	// seen "not ready" by then.
	defaultDrain = 5 * time.Second
	// finishTime is how long questions under way may take once the sockets close. Lookups
	// end within 5 s by themselves.
	finishTime = 6 * time.Second
)

// serveFlags are the flags of serve.
type serveFlags struct {
	config     string
	demo       bool
	listen     []string
	admin      string
	adminSet   bool
	clusterset []string
	drain      time.Duration
	logging    logging
}

func newServe(signals <-chan os.Signal) *cobra.Command {
	f := &serveFlags{}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Answer DNS questions",
		Long: `Answer DNS questions until SIGTERM or SIGINT. A changed configuration file is taken up
live, or at SIGHUP; a bad one changes nothing and is logged.

Without --config, every context of the kubeconfig in use (KUBECONFIG, ~/.kube/config)
is a cluster with names of its own; --clusterset lists those whose services are to be
one under cluster.global. --demo needs neither clusters nor a network.`,
		Args: cobra.NoArgs,
	}
	f.add(cmd)
	cmd.RunE = runner(func(cmd *cobra.Command, _ []string) error {
		f.adminSet = cmd.Flags().Changed("admin")
		if f.demo && !cmd.Flags().Changed("drain") {
			f.drain = 0 // nobody else's questions are lost
		}
		if err := f.check(); err != nil {
			return err
		}
		return serve(cmd.Context(), f, signals, cmd.OutOrStdout(), cmd.ErrOrStderr())
	})
	return cmd
}

func (f *serveFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.config, "config", "", "configuration `file`")
	flags.BoolVar(&f.demo, "demo", false, "serve an example, without clusters and without a network")
	flags.StringSliceVar(&f.listen, "listen", nil, "`addresses` to answer DNS on, over the configuration's (default 127.0.0.1:5354)")
	flags.StringVar(&f.admin, "admin", "", "`address` of the admin API, over the configuration's; \"\" for none (default 127.0.0.1:9253)")
	flags.StringSliceVar(&f.clusterset, "clusterset", nil, "kubeconfig `contexts` that form the cluster set, without --config")
	flags.DurationVar(&f.drain, "drain", defaultDrain, "how long to go on answering after SIGTERM or SIGINT, no longer ready; 0 with --demo")
	f.logging.addFlags(cmd)
}

// check finds what makes no sense in the flags themselves.
func (f *serveFlags) check() error {
	switch {
	case f.demo && f.config != "":
		return usagef("--demo brings its own configuration: leave --config out")
	case len(f.clusterset) > 0 && (f.demo || f.config != ""):
		return usagef("--clusterset is for a start without a configuration: roles of clusters stand in the file")
	case f.drain < 0:
		return usagef("--drain %s is negative", f.drain)
	}
	for _, address := range f.listen {
		if _, err := parseListen(address); err != nil {
			return usagef("--listen %q is not an address such as 127.0.0.1:5354 or :53", address)
		}
	}
	if f.admin != "" {
		if _, err := parseListen(f.admin); err != nil {
			return usagef("--admin %q is not an address such as 127.0.0.1:9253", f.admin)
		}
	}
	return nil
}

// override puts the flags over a configuration.
func (f *serveFlags) override(cfg *config.Config) {
	if len(f.listen) > 0 {
		cfg.Listen.DNS = f.listen
	}
	if f.adminSet {
		cfg.Listen.Admin = f.admin
	}
}

// serve is the command: it starts what is to be served and runs it until it is told to
// end.
func serve(ctx context.Context, f *serveFlags, signals <-chan os.Signal, stdout, stderr io.Writer) error {
	if signals == nil {
		own := make(chan os.Signal, 4)
		signal.Notify(own, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
		defer signal.Stop(own)
		signals = own
	}
	defer TuneCollector()()
	log := f.logging.logger(stderr)
	l := &loader{path: f.config, clusterset: f.clusterset, adjust: f.override}
	if !f.demo {
		return serveLoaded(ctx, f, l, signals, log, nil)
	}
	return serveDemo(ctx, f, l, signals, log, stdout)
}

// serveLoaded serves what l loads; listening is called once the sockets are open.
func serveLoaded(ctx context.Context, f *serveFlags, l *loader, signals <-chan os.Signal, log *slog.Logger, listening func(context.Context, *running)) error {
	first, err := l.load()
	var bad *badConfig
	if errors.As(err, &bad) {
		logProblems(log, bad.problems)
	}
	if err != nil {
		return err
	}
	logProblems(log, first.warnings)
	r, err := start(ctx, first, log)
	if err != nil {
		return err
	}
	defer makeRoom(first.Listen.Workers)()
	if listening != nil {
		listening(ctx, r)
	}
	return r.untilEnd(ctx, l, signals, f.drain)
}

// running is a server at work.
type running struct {
	*mesh
	first     *loaded
	listeners *server.Listeners
	adminAt   net.Listener // nil without an admin API
	readiness *readiness
	reloads   *metrics.Config
	registry  *prometheus.Registry
	group     *errgroup.Group
	stop      context.CancelFunc // ends all but the sockets
	failed    context.Context    // done when a part has failed
}

// start opens the sockets, then starts the rest: a server that cannot listen has no
// effect at all.
func start(ctx context.Context, first *loaded, log *slog.Logger) (*running, error) {
	registry := prometheus.NewRegistry()
	b := thisBuild()
	metrics.RegisterProcess(registry, b.Version, b.Revision, b.Go)
	m, err := newMesh(first.Config, metrics.NewUpstreams(registry), log)
	if err != nil {
		return nil, err
	}
	r := &running{mesh: m, first: first, registry: registry, reloads: metrics.NewConfig(registry)}
	r.readiness = &readiness{sources: shownMesh{m}.waiting}
	registry.MustRegister(metrics.NewServer(m.answers.Counters()), metrics.NewSources(shownMesh{m}))
	if err := r.open(metrics.NewSockets(registry)); err != nil {
		return nil, err
	}
	r.launch(ctx)
	if err := m.apply(r.failed, first.Config, first.kubeconfig); err != nil {
		return nil, errors.Join(err, r.close())
	}
	r.reloads.Started(time.Now())
	return r, nil
}

// open opens the sockets of DNS and of the admin API.
func (r *running) open(counted server.SocketMetrics) error {
	var err error
	if r.listeners, err = listenDNS(r.first.Config, r.answers, counted, r.log); err != nil {
		return fmt.Errorf("%w (--listen chooses another address)", err)
	}
	if address := r.first.Listen.Admin; address != "" {
		if r.adminAt, err = net.Listen("tcp", address); err != nil {
			return errors.Join(fmt.Errorf("admin API: %w (--admin chooses another address)", err), r.listeners.Close())
		}
	}
	if r.adminAt != nil {
		r.log.Info("serving the admin API", "url", r.adminURL())
	}
	return nil
}

func listenDNS(cfg *config.Config, answers *server.Answers, counted server.SocketMetrics, log *slog.Logger) (*server.Listeners, error) {
	var addresses []netip.AddrPort
	for _, text := range cfg.Listen.DNS {
		address, err := parseListen(text)
		if err != nil {
			return nil, fmt.Errorf("listen.dns: %w", err)
		}
		addresses = append(addresses, address)
	}
	return server.Listen(server.Config{
		Addresses: addresses, NewHandler: answers.NewHandler, Workers: cfg.Listen.Workers, Batch: cfg.Listen.Batch,
		Limits: limitsOf(cfg), Logger: log, Metrics: counted,
	})
}

// launch starts the goroutines that live as long as the server.
func (r *running) launch(ctx context.Context) {
	ctx, r.stop = context.WithCancel(context.WithoutCancel(ctx)) // the end has an order of its own
	r.group, r.failed = errgroup.WithContext(ctx)
	r.group.Go(func() error { return r.run(r.failed) })
	r.group.Go(func() error {
		giveBack(r.failed, r.ready)
		return nil
	})
	if r.adminAt != nil {
		server := r.adminServer()
		r.group.Go(func() error { return server.Serve(r.failed, r.adminAt) })
	}
}

func (r *running) adminServer() *admin.Server {
	shown := shownMesh{r.mesh}
	return admin.New(admin.Config{
		Sources: shown, Catalogue: shown, Explainer: shown, Zones: shown, Readiness: r.readiness,
		Metrics: promhttp.HandlerFor(r.registry, promhttp.HandlerOpts{ErrorLog: slog.NewLogLogger(r.log.Handler(), slog.LevelWarn)}),
		Logger:  r.log, Now: time.Now, Version: thisBuild().Version,
	})
}

// adminURL is where the admin API can be asked, "" when it is off.
func (r *running) adminURL() string {
	if r.adminAt == nil {
		return ""
	}
	address := r.adminAt.Addr().String()
	for _, wildcard := range []string{"0.0.0.0:", "[::]:"} {
		if port, ok := strings.CutPrefix(address, wildcard); ok {
			address = "127.0.0.1:" + port
		}
	}
	return "http://" + address
}

// untilEnd takes up changes until a signal, the end of ctx or a failed part ends the
// server, in the order that loses nothing: not ready, drained, sockets closed, the rest.
func (r *running) untilEnd(ctx context.Context, l *loader, signals <-chan os.Signal, patience time.Duration) error {
	changes := &reloader{
		loader: l, metrics: r.reloads, log: r.log, now: time.Now, started: r.first.Config, content: r.first.content,
		apply: func(ctx context.Context, next *loaded) error { return r.apply(ctx, next.Config, next.kubeconfig) },
	}
	r.group.Go(func() error { return changes.watch(r.failed) })
	told, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(r.failed, cancel)()
	if signal := untilTold(told, signals, func() { changes.reread(told) }); signal != nil {
		r.log.Info("told to stop", "signal", signal.String())
	}
	drain(told, r.readiness, signals, patience, r.log)
	return r.close()
}

// close ends the server: questions under way are answered first.
func (r *running) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), finishTime)
	defer cancel()
	err := r.listeners.Shutdown(ctx)
	r.stop()
	failed := r.group.Wait()
	r.fleet.close()
	r.log.Info("stopped")
	return errors.Join(failed, err)
}
