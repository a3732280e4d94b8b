// Command etcd is the etcd server that the API servers of the end-to-end tests store in.
// It is the released server embedded behind the few flags that the tests use; their names
// are those of the etcd command, so that a real etcd can take its place.
package main

import (
	"context"
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"syscall"

	"go.etcd.io/etcd/api/v3/version"
	"go.etcd.io/etcd/server/v3/embed"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "etcd:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends or the server fails.
func run(ctx context.Context, args []string) error {
	cfg, printVersion, err := parse(args)
	if err != nil {
		return err
	}
	if printVersion {
		fmt.Println("etcd Version:", version.Version)
		return nil
	}
	server, err := embed.StartEtcd(cfg)
	if err != nil {
		return fmt.Errorf("start: %w", err)
	}
	defer server.Close()
	select {
	case <-ctx.Done():
		return nil
	case err := <-server.Err():
		return fmt.Errorf("serve: %w", err)
	}
}

// parse turns flags into the configuration of a cluster of one.
func parse(args []string) (cfg *embed.Config, printVersion bool, err error) {
	cfg = embed.NewConfig()
	var clientURL, peerURL string
	flags := flag.NewFlagSet("etcd", flag.ContinueOnError)
	flags.StringVar(&cfg.Dir, "data-dir", "", "folder of the data")
	flags.StringVar(&clientURL, "listen-client-urls", "http://127.0.0.1:2379", "URL for clients")
	flags.StringVar(&peerURL, "listen-peer-urls", "http://127.0.0.1:2380", "URL for peers")
	flags.BoolVar(&cfg.UnsafeNoFsync, "unsafe-no-fsync", false, "never wait for the disk")
	flags.StringVar(&cfg.LogLevel, "log-level", "warn", "debug, info, warn, error")
	flags.BoolVar(&printVersion, "version", false, "print the version and exit")
	// Peers and clients reach a cluster of one where it listens; accepted for likeness with etcd.
	flags.String("advertise-client-urls", "", "ignored: the client URL")
	flags.String("initial-advertise-peer-urls", "", "ignored: the peer URL")
	flags.String("initial-cluster", "", "ignored: this server alone")
	if err := flags.Parse(args); err != nil {
		return nil, false, err
	}
	client, err := url.Parse(clientURL)
	if err != nil {
		return nil, false, fmt.Errorf("client URL: %w", err)
	}
	peer, err := url.Parse(peerURL)
	if err != nil {
		return nil, false, fmt.Errorf("peer URL: %w", err)
	}
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{*client}, []url.URL{*client}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{*peer}, []url.URL{*peer}
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	cfg.LogOutputs = []string{"stderr"}
	return cfg, printVersion, nil
}
