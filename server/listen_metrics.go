package server

// SocketMetrics counts what happens to sockets. Its methods are called from many goroutines
// and must not block. The texts that they get are from closed sets, below each method.
type SocketMetrics interface {
	// ConnectionOpened counts a TCP connection that was let in.
	ConnectionOpened()
	// ConnectionClosed counts the end of one, and why: "client" (closed by it), "idle",
	// "message" (one took too long to come), "write" (its replies were not read in time),
	// "reset" (failed otherwise), "short" (a message below 12 bytes), "dropped" (a message
	// that the Handler drops) or "shutdown".
	ConnectionClosed(why string)
	// ConnectionRefused counts one over a limit: "total" or "prefix".
	ConnectionRefused(limit string)
	// DatagramsDropped counts queries that the system dropped since no worker read them in time.
	DatagramsDropped(n int)
	// WaitingRefused counts queries of a protocol ("udp", "tcp") that needed a lookup while
	// too many were waiting.
	WaitingRefused(protocol string)
	// SocketFailed counts errors of a protocol ("udp", "tcp") in an operation: "read",
	// "write" (a reply that could not be sent, or not in time) or "accept".
	SocketFailed(protocol, operation string)
}

// noMetrics counts nothing.
type noMetrics struct{}

func (noMetrics) ConnectionOpened()           {}
func (noMetrics) ConnectionClosed(string)     {}
func (noMetrics) ConnectionRefused(string)    {}
func (noMetrics) DatagramsDropped(int)        {}
func (noMetrics) WaitingRefused(string)       {}
func (noMetrics) SocketFailed(string, string) {}
