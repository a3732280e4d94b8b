package server

import (
	"encoding/binary"

	"github.com/miekg/dns"

	"github.com/meshdns/meshdns/names"
	"github.com/meshdns/meshdns/zones"
)

// Bits of a header's third byte (RFC 1035 section 4.1.1).
const (
	bitQR       = 0x80
	maskOpcode  = 0x78
	bitAA       = 0x04
	bitTC       = 0x02
	bitRD       = 0x01
	opcodeShift = 3
)

// question is a message as far as it could be read. It belongs to a Handler, which
// reuses it.
type question struct {
	zones.Query
	class  uint16
	end    int // offset behind the question; 0 when there is none that could be read
	opt    edns
	tsig   bool
	buf    [nameRoom]byte
	labels [names.MaxName / 2]uint8
}

// nameRoom holds the longest name in words of eight bytes.
const nameRoom = (names.MaxName + 7) &^ 7

// edns is what the query's OPT says (RFC 6891 section 6.1).
type edns struct {
	present bool
	size    uint16
	version uint8
	do      bool
}

// parse reads a message of at least 12 bytes with QR=0 in the order of DNS_RULES 33. It
// returns the rcode that is already decided: NOERROR when the question can be looked up.
// Work and memory are bounded by the message's length, never by its counts.
func (q *question) parse(msg []byte) int {
	q.end, q.opt, q.tsig = 0, edns{}, false
	counts := [4]uint16{}
	for i := range counts {
		counts[i] = binary.BigEndian.Uint16(msg[4+2*i:])
	}
	queryOpcode := msg[2]&maskOpcode == 0
	if counts[0] == 1 && !q.parseQuestion(msg) {
		if queryOpcode {
			return dns.RcodeFormatError
		}
		return dns.RcodeNotImplemented
	}
	recordsFine := q.parseRecords(msg, counts)
	switch {
	case !queryOpcode:
		return dns.RcodeNotImplemented
	case counts[0] != 1 || !recordsFine:
		return dns.RcodeFormatError
	case counts[1] != 0 || counts[2] != 0 && q.Type != dns.TypeIXFR:
		return dns.RcodeFormatError
	case q.opt.present && q.opt.version > 0:
		return dns.RcodeBadVers
	case q.tsig:
		return dns.RcodeNotAuth // no key is known here (RFC 8945 section 5.2.1)
	case q.class != dns.ClassINET, q.Type == dns.TypeAXFR, q.Type == dns.TypeIXFR:
		return dns.RcodeRefused
	}
	return dns.RcodeSuccess
}

// parseQuestion reads the question's name, lower-cased, its labels, type and class. A
// compression pointer in it could only point into the header or at itself.
func (q *question) parseQuestion(msg []byte) bool {
	at, labels := headerSize, 0
	for {
		if at >= len(msg) {
			return false
		}
		n := int(msg[at])
		to := at - headerSize
		if n == 0 {
			q.buf[to] = 0
			break
		}
		if n > names.MaxLabel || at+1+n >= len(msg) || to+1+n >= names.MaxName {
			return false
		}
		q.labels[labels] = uint8(to)
		labels++
		q.buf[to] = byte(n)
		for i, c := range msg[at+1 : at+1+n] {
			q.buf[to+1+i] = lower1(c)
		}
		at += 1 + n
	}
	if at+5 > len(msg) {
		return false
	}
	q.Name, q.Labels = q.buf[:at+1-headerSize], q.labels[:labels]
	q.Type = binary.BigEndian.Uint16(msg[at+1:])
	q.class = binary.BigEndian.Uint16(msg[at+3:])
	q.end = at + 5
	return true
}

// parseRecords walks the records behind the question and reads the OPT. It says whether
// they are well-formed: whole, at most one OPT, in ADDITIONAL, at the root, with options
// inside of its length; a TSIG only as the very last. What follows the message is ignored.
func (q *question) parseRecords(msg []byte, counts [4]uint16) bool {
	at := max(q.end, headerSize)
	if counts[0] > 1 {
		at = skipQuestions(msg, counts[0])
	}
	fine := at > 0
	for section := 1; section <= 3 && at > 0; section++ {
		for i := counts[section]; i > 0; i-- {
			fine = fine && !q.tsig // nothing follows a TSIG
			next, ok := q.parseRecord(msg, at, section == 3)
			if next == 0 {
				return false
			}
			fine = fine && ok
			at = next
		}
	}
	return fine
}

// skipQuestions returns the offset behind n questions, 0 when they are not whole: a
// message with several is malformed, but its OPT is looked for all the same.
func skipQuestions(msg []byte, n uint16) int {
	at := headerSize
	for ; n > 0; n-- {
		at = skipName(msg, at)
		if at == 0 || at+4 > len(msg) {
			return 0
		}
		at += 4
	}
	return at
}

// parseRecord reads one record and returns the offset behind it, 0 when it is not whole.
func (q *question) parseRecord(msg []byte, at int, additional bool) (next int, ok bool) {
	owner := at
	at = skipName(msg, at)
	if at == 0 || at+10 > len(msg) {
		return 0, false
	}
	typ := binary.BigEndian.Uint16(msg[at:])
	length := int(binary.BigEndian.Uint16(msg[at+8:]))
	next = at + 10 + length
	if next > len(msg) {
		return 0, false
	}
	switch typ {
	case dns.TypeOPT:
		ok = additional && !q.opt.present && msg[owner] == 0 && optionsFit(msg[at+10:next])
		q.opt = edns{
			present: true,
			size:    binary.BigEndian.Uint16(msg[at+2:]),
			version: msg[at+5],
			do:      msg[at+6]&0x80 != 0,
		}
		return next, ok
	case dns.TypeTSIG:
		q.tsig = true
		return next, additional
	}
	return next, true
}

// skipName returns the offset behind a name, 0 when it is not whole. A pointer ends a
// name and is not followed: nobody needs the owners of a query's records; it must point
// back, which is what keeps pointers from looping (RFC 1035 section 4.1.4).
func skipName(msg []byte, at int) int {
	start := at
	for at < len(msg) {
		switch n := int(msg[at]); {
		case n == 0:
			return at + 1
		case n <= names.MaxLabel:
			at += 1 + n
			if at-start >= names.MaxName {
				return 0
			}
		case n >= 0xc0 && at+1 < len(msg):
			if target := n&0x3f<<8 | int(msg[at+1]); target < headerSize || target >= start {
				return 0
			}
			return at + 2
		default: // label types 0x40 and 0x80
			return 0
		}
	}
	return 0
}

// optionsFit says whether an OPT's options end where its RDATA does.
func optionsFit(rdata []byte) bool {
	for len(rdata) > 0 {
		if len(rdata) < 4 {
			return false
		}
		n := 4 + int(binary.BigEndian.Uint16(rdata[2:]))
		if n > len(rdata) {
			return false
		}
		rdata = rdata[n:]
	}
	return true
}
