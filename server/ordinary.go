package server

import (
	"encoding/binary"

	"github.com/miekg/dns"

	"github.com/meshdns/meshdns/names"
	"github.com/meshdns/meshdns/zones"
)

// The fast path. A question is ordinary when it is a whole message of one question in
// class IN with opcode QUERY and at most an OPT of version 0 without options. It is read
// here in one pass; and when it asks for addresses of which all is known (zones/seek.go),
// it is answered here in one go. In all else the general path (handler.go) answers; it
// would give the same bytes.

// parseOrdinary reads a message; false says that it is not ordinary, and nothing of it
// has been read.
func (q *question) parseOrdinary(msg []byte) bool {
	const oneQuestion = 1 << 48 // QDCOUNT 1, ANCOUNT and NSCOUNT 0, ARCOUNT in the lowest bits
	if len(msg) < headerSize+5 || msg[2]&(bitQR|maskOpcode) != 0 {
		return false
	}
	counts := binary.BigEndian.Uint64(msg[4:])
	if counts&^1 != oneQuestion {
		return false
	}
	end := q.readName(msg)
	if end == 0 || binary.BigEndian.Uint16(msg[end+2:]) != dns.ClassINET {
		return false
	}
	q.end, q.tsig, q.class, q.NoWait = end+4, false, dns.ClassINET, false
	q.Type = binary.BigEndian.Uint16(msg[end:])
	if q.Type == dns.TypeAXFR || q.Type == dns.TypeIXFR {
		return false
	}
	return q.readPlainOPT(msg[q.end:], counts&1 == 1)
}

// readName reads the question's name, lower-cased, and its labels; type and class are
// within the message behind it. It returns the offset behind it, 0 when it is none.
func (q *question) readName(msg []byte) int {
	last := min(len(msg)-5, headerSize+names.MaxName-1) // where the root can be
	at, labels := headerSize, 0
	for msg[at] != 0 {
		n := int(msg[at])
		next := at + 1 + n
		if n > names.MaxLabel || next > last {
			return 0
		}
		q.labels[labels] = uint8(at - headerSize)
		labels++
		at = next
	}
	at++
	lowerName(&q.buf, msg[headerSize:at])
	q.Name, q.Labels = q.buf[:at-headerSize], q.labels[:labels]
	return at
}

// lowerName lower-cases a name in wire form, eight bytes at a time: a label's length is
// below any letter.
func lowerName(to *[nameRoom]byte, from []byte) {
	i := 0
	for ; i+8 <= len(from); i += 8 {
		binary.LittleEndian.PutUint64(to[i:], lower8(binary.LittleEndian.Uint64(from[i:])))
	}
	for ; i < len(from); i++ {
		to[i] = lower1(from[i])
	}
}

// lower8 lower-cases the ASCII letters among eight bytes.
func lower8(w uint64) uint64 {
	const ones = 0x0101010101010101
	low := w & (0x7f * ones)
	fromA := low + (0x80-'A')*ones // a byte's highest bit: at least A
	afterZ := low + (0x7f-'Z')*ones
	letters := (fromA ^ afterZ) &^ w & (0x80 * ones)
	return w | letters>>2
}

func lower1(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

// readPlainOPT reads what follows the question: nothing, or an OPT of version 0 without
// options that ends the message.
func (q *question) readPlainOPT(rest []byte, has bool) bool {
	if !has {
		q.opt = edns{}
		return len(rest) == 0
	}
	const rootAndType = 0x000029 // the root, then type 41
	if len(rest) != optSize || uint32(rest[0])<<16|uint32(rest[1])<<8|uint32(rest[2]) != rootAndType {
		return false
	}
	if rest[6] != 0 || rest[9] != 0 || rest[10] != 0 {
		return false
	}
	q.opt = edns{present: true, size: binary.BigEndian.Uint16(rest[3:]), do: rest[7]&0x80 != 0}
	return true
}

// quick answers an ordinary question in one go, or says false and has done nothing.
func (h *handler) quick(out, query []byte, q *question, view *zones.View, p Protocol) ([]byte, bool) {
	if !view.Quick(&q.Query, &h.answer) {
		return nil, false
	}
	count, size := h.answer.Records()
	room := limitOf(p, &q.opt, h.size)
	if q.opt.present {
		room -= optSize
	}
	if q.end+size > room {
		return nil, false
	}
	w := &h.writer
	w.Msg, w.Limit = append(out[:0], query[:q.end]...), room
	w.Msg[2], w.Msg[3] = bitQR|bitAA|query[2]&bitRD, 0
	binary.BigEndian.PutUint64(w.Msg[4:], 1<<48|uint64(count)<<32)
	w.WriteQuick(&h.answer)
	h.optAt = 0
	if q.opt.present {
		h.optAt = len(w.Msg)
		w.Msg[11] = 1
		w.Msg = appendOPT(w.Msg, &q.opt, h.size, dns.RcodeSuccess, edeNone, 0)
	}
	msg := w.Msg
	w.Msg = nil
	h.countQuick(view, q, p)
	return msg, true
}
