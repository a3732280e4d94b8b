// Command echo is the bare loop that this server is measured against: what a Go program
// cannot do without when it answers DNS questions over UDP, and nothing else.
//
// A packet's way: a batch of datagrams is read (socket_linux.go, recvmmsg) → the name is
// lower-cased and looked up in a Go map of packed records, which are copied behind header
// and question (answer.go) → the batch of replies is written (sendmmsg). Nothing is
// checked beyond what keeps the loop alive: no EDNS, no order, no limits, no counters.
//
// The loop is one thread that blocks in recvmmsg (-loop blocking), or a goroutine on the
// runtime's poller (-loop poller); -batch 1 is one datagram at a time. -answers fixed
// sends the same records to every question, without a lookup. Its system calls go past the
// scheduler, which a server that does anything else cannot afford.
package main
