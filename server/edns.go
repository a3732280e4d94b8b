package server

import (
	"encoding/binary"

	"github.com/miekg/dns"
)

// Info codes of Extended DNS Errors (RFC 8914 section 4) that are given; 0 is none here,
// since "other" would say nothing.
const (
	edeNone        = 0
	edeStale       = dns.ExtendedErrorCodeStaleAnswer
	edeNotReady    = dns.ExtendedErrorCodeNotReady
	edeUnreachable = dns.ExtendedErrorCodeNoReachableAuthority
)

const (
	optSize = 11 // OPT without options
	edeSize = 6  // an EDE option without text
)

// appendOPT writes the reply's OPT: our own size limit, the extended rcode's upper bits,
// version 0, DO as it came (RFC 3225 section 3), and an EDE when there is room left for
// it below limit: it is the first to go (DNS_RULES 32).
func appendOPT(msg []byte, q *edns, size uint16, rcode int, ede uint16, limit int) []byte {
	flags := byte(0)
	if q.do {
		flags = 0x80
	}
	length := uint16(0)
	if ede != edeNone && len(msg)+optSize+edeSize <= limit {
		length = edeSize
	}
	msg = append(msg, 0, 0, byte(dns.TypeOPT), byte(size>>8), byte(size), byte(rcode>>4), 0, flags, 0)
	msg = binary.BigEndian.AppendUint16(msg, length)
	if length > 0 {
		msg = append(msg, 0, byte(dns.EDNS0EDE), 0, 2, byte(ede>>8), byte(ede))
	}
	return msg
}
