package main

import (
	"context"
	"fmt"
	"net"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// perfLoad says how dnsperf loads a server.
type perfLoad struct {
	InFlight int // questions at one time
	Clients  int // sockets
	Seconds  float64
	EDNS     bool
	Queries  string // file
}

// perfResult is what dnsperf found out.
type perfResult struct {
	Sent, Completed, Lost int
	Wrong                 int // replies with another code than NOERROR
	ReplySize             int // bytes, mean
	RunTime               time.Duration
	PerSecond             float64       // completed
	GeneratorCPU          time.Duration // of dnsperf itself
}

// dnsperf loads the server at addr.
func (l *lab) dnsperf(ctx context.Context, addr string, load perfLoad) (perfResult, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return perfResult{}, err
	}
	args := []string{"-s", host, "-p", port, "-d", load.Queries, "-t", "1",
		"-q", strconv.Itoa(load.InFlight), "-c", strconv.Itoa(load.Clients), "-T", "1",
		"-l", strconv.FormatFloat(load.Seconds, 'f', -1, 64)}
	if load.EDNS {
		args = append(args, "-e")
	}
	p, err := l.start(program{name: "dnsperf", path: l.bin.Dnsperf, args: args, cpus: l.generatorCPUs()})
	if err != nil {
		return perfResult{}, err
	}
	if err := p.wait(ctx); err != nil {
		return perfResult{}, fmt.Errorf("dnsperf: %w: %s", err, p.output())
	}
	r, err := parseDnsperf(p.output())
	if err != nil {
		return r, err
	}
	r.GeneratorCPU = p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime()
	return r, nil
}

// parseDnsperf reads dnsperf's statistics.
func parseDnsperf(text string) (perfResult, error) {
	s := statistics{text: text}
	r := perfResult{
		Sent:      int(s.number("Queries sent")),
		Completed: int(s.number("Queries completed")),
		Lost:      int(s.number("Queries lost")),
		RunTime:   time.Duration(s.number("Run time (s)") * float64(time.Second)),
		PerSecond: s.number("Queries per second"),
	}
	_, response, _ := strings.Cut(s.value("Average packet size"), "response ")
	if n, err := strconv.Atoi(response); err == nil {
		r.ReplySize = n
	} else {
		s.fail("Average packet size")
	}
	r.Wrong = r.Completed - s.noError(r.Completed)
	return r, s.err
}

// statistics are lines of "name: value".
type statistics struct {
	text string
	err  error // the first
}

func (s *statistics) fail(name string) {
	if s.err == nil {
		s.err = fmt.Errorf("dnsperf says no %q: %s", name, s.text)
	}
}

// value is what follows a name, without what is in parentheses behind it.
func (s *statistics) value(name string) string {
	for line := range strings.Lines(s.text) {
		found, value, ok := strings.Cut(strings.TrimSpace(line), ":")
		if ok && found == name {
			return strings.TrimSpace(value)
		}
	}
	s.fail(name)
	return ""
}

func (s *statistics) number(name string) float64 {
	value, _, _ := strings.Cut(s.value(name), " ")
	n, err := strconv.ParseFloat(value, 64)
	if err != nil {
		s.fail(name)
	}
	return n
}

// noError is how many replies had code NOERROR.
func (s *statistics) noError(completed int) int {
	if completed == 0 {
		return 0 // dnsperf prints an empty list
	}
	found := regexp.MustCompile(`\bNOERROR (\d+) `).FindStringSubmatch(s.value("Response codes") + " ")
	if found == nil {
		return 0
	}
	n, err := strconv.Atoi(found[1])
	if err != nil {
		s.fail("Response codes")
	}
	return n
}
