package server

import (
	"fmt"
	"net/netip"
	"time"
)

// Limits bound what clients can make the sockets hold. A field that is zero has its default.
type Limits struct {
	// Waiting bounds the queries that wait for a lookup, on UDP and on TCP each; more get
	// their SERVFAIL at once. 1,000: with WaitTime about what one upstream can be asked.
	Waiting int
	// WaitingPerConnection bounds those of one TCP connection. 200: a forwarder puts the
	// queries of many clients on one connection, yet five of them must not fill Waiting.
	WaitingPerConnection int
	// WaitTime ends a lookup that a query waits for. 5 s: no stub resolver waits longer.
	WaitTime time.Duration
	// Connections bounds the open TCP connections; more are refused. 10,000, or half of the
	// files that the process may open where that is less.
	Connections int
	// ConnectionsPerPrefix bounds those of one client's /32 or /56. 1,000.
	ConnectionsPerPrefix int
	// Exempt lists the forwarders to which ConnectionsPerPrefix does not apply.
	Exempt []netip.Prefix
	// MessageTime is how long a TCP message may take from its first byte to its last. 2 s.
	MessageTime time.Duration
	// IdleTime closes a TCP connection on which nothing was asked, answered or is waiting.
	// 10 s (RFC 7766 section 6.2.3 asks for some seconds).
	IdleTime time.Duration
	// WriteTime is how long a client may take to read what was written to it. 2 s.
	WriteTime time.Duration
	// ReceiveBuffer is what a UDP socket may hold unread, in bytes, as far as the system
	// allows. 1 MiB: some 1,000 small queries, a few milliseconds' work.
	ReceiveBuffer int
}

const (
	// quietTime: a socket that is being closed has nothing more to say once nothing came for
	// so long. Data that the system holds comes at once, so that this only covers what other
	// processors were still putting there.
	quietTime = 20 * time.Millisecond
	// lingerTime is how long a connection that is closed by us is still read, so that its
	// last replies are not lost to a reset (RFC 7766 section 6.2.4 leaves it to us).
	lingerTime = 200 * time.Millisecond
	// forceTime is how long Shutdown waits for handlers whose time has ended.
	forceTime = time.Second
)

// withDefaults fills in what is zero, and refuses what is negative.
func (l Limits) withDefaults() (Limits, error) {
	for _, n := range []struct {
		name  string
		value *int
		usual int
	}{
		{"Waiting", &l.Waiting, 1000},
		{"WaitingPerConnection", &l.WaitingPerConnection, 200},
		{"Connections", &l.Connections, usualConnections(openFilesLimit())},
		{"ConnectionsPerPrefix", &l.ConnectionsPerPrefix, 1000},
		{"ReceiveBuffer", &l.ReceiveBuffer, 1 << 20},
	} {
		if err := setDefault(n.name, n.value, n.usual); err != nil {
			return l, err
		}
	}
	for _, d := range []struct {
		name  string
		value *time.Duration
		usual time.Duration
	}{
		{"WaitTime", &l.WaitTime, 5 * time.Second},
		{"MessageTime", &l.MessageTime, 2 * time.Second},
		{"IdleTime", &l.IdleTime, 10 * time.Second},
		{"WriteTime", &l.WriteTime, 2 * time.Second},
	} {
		if err := setDefault(d.name, d.value, d.usual); err != nil {
			return l, err
		}
	}
	return l, nil
}

func setDefault[T int | time.Duration](name string, value *T, usual T) error {
	if *value < 0 {
		return fmt.Errorf("limit %s: %v is negative", name, *value)
	}
	if *value == 0 {
		*value = usual
	}
	return nil
}

// usualConnections leaves half of the files that may be open to the rest of the process.
// No limit is known where files is 0.
func usualConnections(files uint64) int {
	const usual = 10_000
	if files == 0 || files/2 >= usual {
		return usual
	}
	return max(1, int(files/2))
}
