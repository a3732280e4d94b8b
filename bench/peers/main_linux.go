package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// options are the flags.
type options struct {
	only, servers                     []string
	services, large, cluster, starts  int
	endpoints                         int
	rounds, batch                     int
	saturation, clients, few          int
	seconds                           float64
	edns, pin                         bool
	corednsProcs, liveProcs           int
	changeRate, probeRate             int
	askers, upstreamMillis, fanRounds int
	idle, pipelined                   int
	patience                          time.Duration
}

// experiments are what -only chooses from, in the order in which they run.
func experiments() []string {
	return []string{"load", "kubernetes", "changes", "startup", "api-startup", "fanout", "tcp"}
}

// list is a flag of names with commas between them.
func list(flags *flag.FlagSet, to *[]string, name, usage string, known []string, preset ...string) {
	*to = preset
	flags.Func(name, usage+": "+strings.Join(known, ", "), func(text string) error {
		*to = strings.Split(text, ",")
		for _, word := range *to {
			if !slices.Contains(known, word) {
				return fmt.Errorf("%q is none of them", word)
			}
		}
		return nil
	})
}

func parseFlags(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("peers", flag.ContinueOnError)
	list(flags, &o.only, "only", "`experiments` to run", experiments(), experiments()...)
	var names []string
	for _, k := range kinds(options{services: 1, large: 1}) {
		names = append(names, k.name)
	}
	list(flags, &o.servers, "servers", "`servers` of the load experiment", names, "nsd", "knot", "coredns", "echo", "meshdns", "meshdns-large")
	flags.IntVar(&o.services, "services", 10_000, "services under load")
	flags.IntVar(&o.large, "large", 100_000, "services of meshdns-large")
	flags.IntVar(&o.cluster, "cluster-services", 5_000, "services of the kubernetes experiment")
	flags.IntVar(&o.starts, "api-services", 20_000, "services of the api-startup experiment")
	flags.IntVar(&o.endpoints, "endpoints", 1_000_000, "endpoints of the changes and startup experiments")
	flags.IntVar(&o.rounds, "rounds", 5, "rounds")
	flags.Float64Var(&o.seconds, "seconds", 3, "length of each load")
	flags.IntVar(&o.batch, "batch", 32, "datagrams in one system call of this server and of the bare loop")
	flags.IntVar(&o.saturation, "saturation", 200, "queries in flight at saturation")
	flags.IntVar(&o.clients, "clients", 4, "sockets of the generator at saturation")
	flags.IntVar(&o.few, "few", 4, "queries in flight of the second load")
	flags.BoolVar(&o.edns, "edns", false, "send an OPT with each query")
	flags.BoolVar(&o.pin, "pin", runtime.NumCPU() > 1, "bind servers to the first processor and the generator to the second")
	flags.IntVar(&o.corednsProcs, "coredns-procs", 0, "GOMAXPROCS of CoreDNS; 0: the processors that it is bound to")
	flags.IntVar(&o.liveProcs, "live-procs", 2, "GOMAXPROCS of the server in the changes experiment")
	flags.IntVar(&o.changeRate, "changes", 1_000, "changes a second in the changes experiment")
	flags.IntVar(&o.probeRate, "probe-rate", 20_000, "queries a second in the changes experiment")
	flags.IntVar(&o.askers, "askers", 1_000, "clients at one time in the fanout experiment")
	flags.IntVar(&o.upstreamMillis, "upstream-ms", 20, "milliseconds that each upstream answer takes in the fanout experiment")
	flags.IntVar(&o.fanRounds, "fanout-names", 20, "names asked for the first time in the fanout experiment")
	flags.IntVar(&o.idle, "idle", 10_000, "idle connections of the tcp experiment")
	flags.IntVar(&o.pipelined, "pipelined", 1_000, "questions in one write in the tcp experiment")
	flags.DurationVar(&o.patience, "patience", 35*time.Second, "how long the tcp experiment waits for a bad client to be cut off")
	err := flags.Parse(args)
	if err == nil && flags.NArg() > 0 {
		err = fmt.Errorf("%q is no flag", flags.Arg(0))
	}
	if err == nil && (o.rounds < 1 || o.services < 1 || o.seconds <= 0) {
		err = errors.New("-rounds, -services and -seconds have to be above 0")
	}
	return o, err
}

// need is what the chosen experiments cannot do without.
func (o options) need() need {
	load := slices.Contains(o.only, "load")
	cluster := slices.Contains(o.only, "kubernetes") || slices.Contains(o.only, "api-startup")
	return need{
		packages: load || slices.Contains(o.only, "tcp") || slices.Contains(o.only, "kubernetes") || slices.Contains(o.only, "changes"),
		coredns:  load && slices.Contains(o.servers, "coredns") || slices.Contains(o.only, "kubernetes"),
		cluster:  cluster,
	}
}

func main() {
	o, err := parseFlags(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if dir := os.Getenv(insideVariable); dir != "" {
		err = inside(ctx, o, dir)
	} else {
		err = outside(ctx, o)
	}
	if err != nil {
		stop()
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

// outside makes everything ready and runs this program again where it measures.
func outside(ctx context.Context, o options) error {
	dir, err := os.MkdirTemp("", "meshdns-peers-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	bin, err := prepare(ctx, o, dir)
	if err != nil {
		return err
	}
	if err := bin.save(dir); err != nil {
		return err
	}
	return reenter(dir)
}

// inside runs the experiments.
func inside(ctx context.Context, o options, dir string) error {
	bin, err := loadBinaries(dir)
	if err != nil {
		return err
	}
	if err := raiseLoopback(); err != nil {
		return err
	}
	l := &lab{options: o, bin: bin, dir: dir, out: os.Stdout, log: os.Stderr}
	return l.run(ctx)
}

// needed are the servers of a run.
func (o options) needed() []string {
	if slices.Contains(o.only, "tcp") {
		return append(slices.Clone(o.servers), tcpServers...)
	}
	return o.servers
}

func (l *lab) run(ctx context.Context) error {
	if missing := l.bin.missing(l.needed()); len(missing) > 0 && l.need().packages {
		return fmt.Errorf("missing: %s (hack/tools peers installs them as root; -servers leaves servers out)", strings.Join(missing, ", "))
	}
	all := map[string]func(context.Context) error{
		"load": l.runLoad, "kubernetes": l.runKubernetes, "changes": l.runChanges,
		"startup": l.runStartup, "api-startup": l.runAPIStartup, "fanout": l.runFanout, "tcp": l.runTCP,
	}
	var errs []error
	for _, name := range experiments() {
		if !slices.Contains(l.only, name) {
			continue
		}
		if err := all[name](ctx); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

// serverCPUs and generatorCPUs are what programs are bound to; nil: nothing.
func (l *lab) serverCPUs() []int {
	if l.pin {
		return []int{0}
	}
	return nil
}

func (l *lab) generatorCPUs() []int {
	if l.pin {
		return []int{1}
	}
	return nil
}
