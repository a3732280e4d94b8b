// Command live is this server with a source that changes its data at a given rate: resolver,
// zones and server as the product puts them together, filled from bench/data in process, so
// that no file and no API server takes processor time away from what is measured.
//
// The way of a run: the mesh is loaded (fleet.go) → "ready" is printed → each line on
// standard input is a number of changes a second (0 stops them), from then on to the next
// line → at that next line, what happened in between is printed as one JSON line (report.go).
// A change gives one service of one cluster other addresses; its latency runs from Update
// until Publish returns, from when on every query sees it. It ends with its input.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strconv"
	"time"

	"github.com/meshdns/meshdns/bench/data"
	"github.com/meshdns/meshdns/server"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:5300", "`address` to answer on")
	services := flag.Int("services", 166_667, "services of three clusters, two endpoints each")
	workers := flag.Int("workers", 1, "UDP sockets")
	flag.Parse()
	if err := run(*listen, *services, *workers, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "live:", err)
		os.Exit(1)
	}
}

func run(listen string, services, workers int, in io.Reader, out io.Writer) error {
	address, err := netip.ParseAddrPort(listen)
	if err != nil {
		return fmt.Errorf("-listen: %w", err)
	}
	f, err := newFleet(data.Default(services))
	if err != nil {
		return err
	}
	defer f.close()
	answers := server.NewAnswers(server.AnswersConfig{Views: f.publisher})
	listeners, err := server.Listen(server.Config{
		Addresses: []netip.AddrPort{address}, NewHandler: answers.NewHandler, Workers: workers,
	})
	if err != nil {
		return err
	}
	defer listeners.Close()
	fmt.Fprintln(out, "ready")
	return f.obey(in, out)
}

// obey changes data as the lines of in say and writes a report for each period.
func (f *fleet) obey(in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	encoder := json.NewEncoder(out)
	stop := func() {}
	began := time.Time{}
	for lines.Scan() {
		rate, err := strconv.Atoi(lines.Text())
		if err != nil || rate < 0 {
			return fmt.Errorf("%q is not a number of changes a second", lines.Text())
		}
		stop()
		if !began.IsZero() {
			if err := encoder.Encode(f.report(time.Since(began))); err != nil {
				return fmt.Errorf("write a report: %w", err)
			}
		}
		began = time.Now()
		stop = f.change(rate)
	}
	stop()
	return lines.Err()
}

// change makes rate changes a second until stop, which returns when all are published.
func (f *fleet) change(rate int) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.pace(ctx, rate)
	}()
	return func() {
		cancel()
		<-done
		f.flush()
	}
}

// pace pushes changes at even distances; after a pause of the machine it catches up.
func (f *fleet) pace(ctx context.Context, rate int) {
	if rate == 0 {
		return
	}
	between := time.Second / time.Duration(rate)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for next := time.Now(); ; next = next.Add(between) {
		timer.Reset(time.Until(next))
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			f.push()
		}
	}
}
