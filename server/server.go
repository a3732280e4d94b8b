// Package server turns packets into answers.
//
// A packet's way: a socket reads it (udp.go, tcp.go; listen.go opens them) → Handler
// checks header, question and OPT in place and lower-cases the name into a buffer of its
// own (question.go) → one zones.View is loaded and asked (handler.go) → header, question
// as it came, records and OPT are put together within what the transport and the client
// allow (compose.go, edns.go; what does not fit is cut in truncate.go) → the socket sends
// the reply. A question for a name whose locator was never asked waits in a goroutine of
// its own (waiting.go). Counters that the query path fills are in counters.go.
package server
