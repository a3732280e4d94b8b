package config

import (
	"fmt"
	"net/netip"
	"time"
)

// Server says how questions are taken and answered, whatever they are.
type Server struct {
	RateLimit RateLimit `yaml:"rateLimit"`
	TCP       TCP       `yaml:"tcp"`
}

// RateLimit bounds the replies over UDP to one client prefix. Replies over TCP and to valid
// cookies are not limited.
type RateLimit struct {
	// ResponsesPerSecond is how many a prefix gets, 1,000,000 at most; 0: no limit.
	ResponsesPerSecond int `yaml:"responsesPerSecond"`
	// Slip: each Slip-th reply above the rate is sent truncated and without records; 0: none
	// is, 1: all are; 10 at most.
	Slip       int            `yaml:"slip"`
	IPv4Prefix int            `yaml:"ipv4Prefix"` // bits, 1 to 32
	IPv6Prefix int            `yaml:"ipv6Prefix"` // bits, 1 to 128
	Window     time.Duration  `yaml:"window"`     // how much of the rate may come at once; a minute at most
	Exempt     []netip.Prefix `yaml:"exempt"`     // forwarders without a limit
}

// TCP bounds what connections hold.
type TCP struct {
	Connections          int `yaml:"connections"`          // 0: 10,000, or half of the files that may be open
	ConnectionsPerPrefix int `yaml:"connectionsPerPrefix"` // of an IPv4 address or IPv6 /56; 0: 1,000
	// Exempt are forwarders to which ConnectionsPerPrefix does not apply.
	Exempt []netip.Prefix `yaml:"exempt"`
}

const (
	mostResponsesPerSecond = 1_000_000
	mostSlip               = 10
	longestRateWindow      = time.Minute
	mostConnections        = 1_000_000
)

func (v *validator) server() {
	v.rateLimit("server.rateLimit", v.cfg.Server.RateLimit)
	const path = "server.tcp"
	tcp := v.cfg.Server.TCP
	v.within(path+".connections", tcp.Connections, mostConnections)
	v.within(path+".connectionsPerPrefix", tcp.ConnectionsPerPrefix, mostConnections)
	v.prefixes(path+".exempt", tcp.Exempt)
}

func (v *validator) rateLimit(path string, r RateLimit) {
	v.within(path+".responsesPerSecond", r.ResponsesPerSecond, mostResponsesPerSecond)
	v.within(path+".slip", r.Slip, mostSlip)
	v.bits(path+".ipv4Prefix", r.IPv4Prefix, 32)
	v.bits(path+".ipv6Prefix", r.IPv6Prefix, 128)
	if r.Window <= 0 || r.Window > longestRateWindow {
		v.errorf(path+".window", "%s: want more than 0s, %s at most", r.Window, longestRateWindow)
	}
	v.prefixes(path+".exempt", r.Exempt)
	if v.doc.Has(path) && r.ResponsesPerSecond == 0 {
		v.warnf(path, "responsesPerSecond is 0: nothing is limited")
	}
}

func (v *validator) bits(path string, n, most int) {
	if n < 1 || n > most {
		v.errorf(path, "%d: want a number from 1 to %d", n, most)
	}
}

func (v *validator) prefixes(path string, list []netip.Prefix) {
	for i, p := range list {
		v.prefix(fmt.Sprintf("%s[%d]", path, i), p)
	}
}
