package main

import (
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/meshdns/meshdns/bench/stats"
)

// table is rows of text under a heading, in columns as wide as their widest cell.
type table struct {
	title string
	rows  [][]string // the first is the heading
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

// write prints the table as Markdown.
func (t *table) write(w io.Writer) {
	widths := make([]int, len(t.rows[0]))
	for _, row := range t.rows {
		for i, cell := range row {
			widths[i] = max(widths[i], len([]rune(cell)))
		}
	}
	fmt.Fprintf(w, "\n%s\n\n", t.title)
	for n, row := range t.rows {
		for i, cell := range row {
			fmt.Fprintf(w, "| %s%s ", cell, strings.Repeat(" ", widths[i]-len([]rune(cell))))
		}
		fmt.Fprintln(w, "|")
		if n == 0 {
			fmt.Fprintln(w, strings.Repeat("|---", len(row))+"|")
		}
	}
}

func micros(d time.Duration) string { return fmt.Sprintf("%.0f µs", float64(d.Nanoseconds())/1e3) }
func megabytes(n int64) string      { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }
func percent(part float64) string   { return fmt.Sprintf("%.0f %%", 100*part) }

func ratioText(r float64) string {
	if math.IsNaN(r) {
		return "–"
	}
	return fmt.Sprintf("%.2f", r)
}

// each takes one figure out of all samples of a server.
func each[T any](s *series, figure func(sample) T) []T {
	values := make([]T, len(s.samples))
	for i, one := range s.samples {
		values[i] = figure(one)
	}
	return values
}

func (s *series) median(figure func(sample) float64) float64 { return stats.Median(each(s, figure)) }

// loadTable shows one way of loading with dnsperf.
func loadTable(title string, all []*series, pick func(sample) loaded) *table {
	t := &table{title: title}
	t.add("server", "queries/s", "lost", "CPU/answer", "spread", "server busy", "generator busy", "bytes")
	for _, s := range all {
		perAnswer := each(s, func(one sample) float64 { return pick(one).perAnswer() })
		lost := 0
		for _, one := range s.samples {
			lost += pick(one).Lost
		}
		busy := func(generator bool) string {
			return percent(s.median(func(one sample) float64 {
				server, generates := pick(one).busy()
				if generator {
					return generates
				}
				return server
			}))
		}
		t.add(s.name,
			fmt.Sprintf("%.0f", s.median(func(one sample) float64 { return pick(one).PerSecond })),
			fmt.Sprint(lost), fmt.Sprintf("%.2f µs", stats.Median(perAnswer)), percent(stats.Spread(perAnswer)),
			busy(false), busy(true), fmt.Sprint(pick(s.samples[0]).ReplySize))
	}
	return t
}

// pacedTable shows latency at a part of each server's capacity, and memory.
func pacedTable(all []*series) *table {
	t := &table{title: fmt.Sprintf("Latency at %.0f %% of each server's own queries/s, and memory", 100*pacedPart)}
	t.add("server", "queries/s", "lost", "p50", "p99", "p99.99", "resident", "peak")
	for _, s := range all {
		lost := 0
		for _, one := range s.samples {
			lost += one.paced.Lost
		}
		median := func(figure func(probeResult) time.Duration) string {
			return micros(stats.Median(each(s, func(one sample) time.Duration { return figure(one.paced) })))
		}
		t.add(s.name, fmt.Sprintf("%.0f", s.median(func(one sample) float64 { return one.paced.Rate })), fmt.Sprint(lost),
			median(func(r probeResult) time.Duration { return r.P50 }),
			median(func(r probeResult) time.Duration { return r.P99 }),
			median(func(r probeResult) time.Duration { return r.P9999 }),
			megabytes(s.memory.Resident), megabytes(s.memory.Peak))
	}
	return t
}

// ratioTable sets our servers against the others: medians of the ratios inside of rounds.
func ratioTable(all []*series) *table {
	t := &table{title: "Ratios, medians over rounds (below 1 is better for CPU and p99, above 1 for queries/s)"}
	t.add("", "CPU/answer saturated", "queries/s saturated", "CPU/answer few in flight", "p99 paced")
	for _, ours := range all {
		if !strings.HasPrefix(ours.name, "meshdns") {
			continue
		}
		for _, other := range all {
			if other != ours && other.name != "meshdns-large" {
				t.add(append([]string{ours.name + " / " + other.name}, ratios(ours, other)...)...)
			}
		}
	}
	return t
}

func ratios(ours, other *series) []string {
	figures := []func(sample) float64{
		func(s sample) float64 { return s.saturated.perAnswer() },
		func(s sample) float64 { return s.saturated.PerSecond },
		func(s sample) float64 { return s.few.perAnswer() },
		func(s sample) float64 { return float64(s.paced.P99) },
	}
	var cells []string
	for _, figure := range figures {
		var rounds []float64
		for i := range min(len(ours.samples), len(other.samples)) {
			rounds = append(rounds, stats.Ratio(figure(ours.samples[i]), figure(other.samples[i])))
		}
		cells = append(cells, ratioText(stats.Median(rounds)))
	}
	return cells
}

// report prints all tables of a load experiment.
func (l *lab) report(all []*series) {
	for _, s := range all {
		fmt.Fprintf(l.out, "- %s: %s\n", s.name, s.what)
	}
	loadTable(fmt.Sprintf("Saturation: %d queries in flight from %d sockets", l.saturation, l.clients),
		all, func(s sample) loaded { return s.saturated }).write(l.out)
	loadTable(fmt.Sprintf("%d queries in flight", l.few), all, func(s sample) loaded { return s.few }).write(l.out)
	pacedTable(all).write(l.out)
	ratioTable(all).write(l.out)
}
