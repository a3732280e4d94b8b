package server

// minUDP is what every client can take without EDNS (RFC 1035 section 2.3.4).
const minUDP = 512

// maxMessage is what a TCP message's length can say.
const maxMessage = 65535

// limitOf is how many bytes a reply may have (DNS_RULES 24, 25): over UDP the client's
// size, at least 512, at most our own; 512 without EDNS.
func limitOf(p Protocol, q *edns, own uint16) int {
	switch {
	case p == TCP:
		return maxMessage
	case !q.present:
		return minUDP
	}
	return min(max(int(q.size), minUDP), int(own))
}
