// Command peers measures this server beside NSD, Knot DNS, CoreDNS and a bare loop, all with
// the same names and addresses (bench/data) on one machine in one run. "make peers" runs
// all of it; -only, -servers, -rounds and -seconds make it short.
//
// The way of a run: what is missing is installed or built (prepare.go) → the program starts
// itself again in a network namespace of its own, where it may (namespace.go) → the
// experiments that were asked for run one after the other and print tables (report.go):
//
//	load.go        NSD, Knot, CoreDNS with file and cache, bare loops and this server under load
//	kubernetes.go  the same for CoreDNS and this server on one real API server, and memory
//	changes.go     a server with 1,000,000 endpoints under load while its data change
//	startup.go     time and memory of a start with 1,000,000 endpoints, and from an API server
//	tcp.go         bad clients over TCP (tcp_clients.go), with NSD, Knot, BIND and this server
//	fanout.go      the first question for a name that no backend was asked for before
//
// Under load: each server is started (servers.go and one file for each), asked for names
// whose answers are known (check.go), then loaded in rounds, all servers in a new random
// order in each (rounds.go): at saturation by dnsperf (dnsperf.go), with few questions in
// flight by a generator that never sleeps (closed.go), at a part of its own capacity by one
// that never waits (probe.go). Processor time and memory are the kernel's (proc.go). A wrong
// answer, or one lost in a hundred, fails the run once its tables are printed.
//
// process.go starts and stops programs, each on the processors that it is given.
package main
