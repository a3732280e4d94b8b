// Package server turns packets into answers.
//
// A packet's way: a socket reads it (udp_loop.go, tcp_read.go; listen.go opens them) → all
// that were read together begin as one batch, for which one zones.View is loaded and what
// it has for ordinary questions is fetched from memory at once (batch.go) → an ordinary
// question for addresses is answered in one go (ordinary.go). All others take the general
// path, which would give the same bytes (paths_both.go): header, question and OPT are
// checked in place, the name is lower-cased (question.go) → the View is asked (handler.go) → header, question
// as it came, records and OPT are put together (compose.go, edns.go) within what the transport and the
// client allow (truncate.go; zones/write.go stops there, compose.go sets TC) → with a rate limit
// in force, a UDP reply is put on the account of the client's prefix and may be cut or dropped
// (ratelimit.go, ratelimit_accounts.go, ratelimit_reply.go) → the socket sends
// the reply (tcp_write.go writes pipelined ones in one go). A question for a name whose
// locator was never asked waits in a goroutine of its own (udp_waiting.go, tcp_waiting.go)
// for the first lookup (waiting.go). Counters that the query path fills are in counters.go.
//
// On Linux each UDP socket blocks a goroutine of its own: opened by udp_open_linux.go, shared out by
// udp_filter_linux.go, kept open and drained by udp_conn_linux.go, read and written in batches by
// udp_batch_linux.go through udp_calls_linux.go, with the address asked from
// udp_control_linux.go; udp_turn_linux.go is how it gets on with Go's scheduler. udp_other.go
// is all of that, simpler, for other systems.
package server
