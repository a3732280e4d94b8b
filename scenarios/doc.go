// Package scenarios is behaviour as text: scripts that anyone can read and write without
// Go, run against real sockets of the built program. README.md beside this file is the
// guide to writing one; scripts/ holds them, named after the rules that they pin.
//
// The way of a script:
//
//	script.go     archive → Script: steps with the lines below them, and files
//	words.go      line → words; numbers, ranges and settings in them
//	run.go        Run: the scenario from start to end, and what a failure prints
//	steps.go      one step → what does it
//	files.go      files laid out in the work folder; copy, remove, link
//	generate.go   endpoints: the manifests of large services
//	process.go    the program under test: started, ready, stopped, its log
//	commands.go   run, log: the program's other commands and what it logged
//	admin.go      get, explain: the admin API
//
// The way of a query step:
//
//	question.go   words → questions → packets
//	raw.go        raw: packets byte by byte; mutate: damaged ones
//	client.go     packet → reply, over UDP or TCP
//	wire.go       reply → its layout, by a reader that shares no code with the server
//	always.go     what holds for every reply, whatever the script says
//	expect.go     the lines below the step, one after the other
//	records.go    those about records: answer, addresses, srv, soa …
//	targets.go    those that ask again: targets, same, serial
//	order.go      order: chi-square on places in the answer
//	flight.go     send, receive: questions in flight together
//
// The fake upstream, for names that live in other DNS servers:
//
//	upstream.go   sockets, what was asked, held replies
//	behaviour.go  lines below the upstream step → what is answered to whom
//	asked.go      asked, release, forget: what the script wants to know of it
package scenarios
