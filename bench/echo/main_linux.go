package main

import (
	"flag"
	"fmt"
	"net/netip"
	"os"

	"github.com/meshdns/meshdns/bench/data"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:5300", "`address` to answer on")
	services := flag.Int("services", 10_000, "names to answer")
	batch := flag.Int("batch", 32, "datagrams in one system call")
	mode := flag.String("loop", "blocking", "blocking (one locked thread) or poller")
	fixed := flag.String("answers", "map", "map (looked up by name) or fixed (the same records for every name)")
	flag.Parse()
	if err := run(*listen, *services, *batch, *mode, *fixed); err != nil {
		fmt.Fprintln(os.Stderr, "echo:", err)
		os.Exit(1)
	}
}

func run(listen string, services, batch int, mode, kind string) error {
	address, err := netip.ParseAddrPort(listen)
	if err != nil {
		return fmt.Errorf("-listen: %w", err)
	}
	if services < 1 || batch < 1 {
		return fmt.Errorf("-services %d and -batch %d have to be above 0", services, batch)
	}
	if mode != "blocking" && mode != "poller" || kind != "map" && kind != "fixed" {
		return fmt.Errorf("no such -loop %q or -answers %q", mode, kind)
	}
	l := newLoop(newAnswers(data.Default(services), kind == "fixed"), batch)
	return serve(address, l, mode == "blocking")
}
