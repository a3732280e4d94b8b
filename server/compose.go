package server

import (
	"encoding/binary"

	"github.com/meshdns/meshdns/zones"
)

// compose writes the reply: header, the question as it came, records, OPT.
func (h *handler) compose(out, query []byte, view *zones.View) []byte {
	r := &h.reply
	msg := appendHeader(out[:0], query, r.rcode, r.aa)
	if h.q.end > 0 {
		msg = append(msg, query[headerSize:h.q.end]...)
		msg[5] = 1
	}
	room := r.limit
	if h.q.opt.present {
		room -= optSize
	}
	additional := uint16(0)
	if r.data {
		msg, additional = h.records(msg, room, view)
	}
	h.optAt = 0
	if h.q.opt.present {
		h.optAt = len(msg)
		msg = appendOPT(msg, &h.q.opt, h.size, r.rcode, r.ede, r.limit)
		additional++
	}
	binary.BigEndian.PutUint16(msg[10:], additional)
	return msg
}

// appendHeader writes a reply's header: ID, opcode and RD are the query's, RA, Z, AD and
// CD are 0 (DNS_RULES 1), counts are 0.
func appendHeader(msg, query []byte, rcode int, aa bool) []byte {
	flags := bitQR | query[2]&(maskOpcode|bitRD)
	if aa {
		flags |= bitAA
	}
	return append(msg, query[0], query[1], flags, byte(rcode)&0xf, 0, 0, 0, 0, 0, 0, 0, 0)
}

// records writes the three sections and sets their counts but the last one's, which it
// returns. Records of ANSWER or AUTHORITY that don't fit set TC, glue does not.
func (h *handler) records(msg []byte, room int, view *zones.View) ([]byte, uint16) {
	w, a := &h.writer, &h.answer
	w.Msg, w.Limit = msg, room
	now := int64(0)
	if a.CountsDown() {
		now = view.Clock()
	}
	answer := w.WriteAnswer(a, now)
	if answer.Cut && h.q.opt.do { // part of a signed set never validates (DNS_RULES 25)
		w.Msg, answer.Count = w.Msg[:len(msg)], 0
	}
	authority := zones.Records{}
	if !answer.Cut {
		authority = w.WriteAuthority(a, len(h.q.Labels))
	}
	h.reply.cut = answer.Cut || authority.Cut
	additional := zones.Records{}
	if h.reply.cut {
		w.Msg[2] |= bitTC
	} else {
		additional = w.WriteAdditional(a, now)
	}
	binary.BigEndian.PutUint16(w.Msg[6:], answer.Count)
	binary.BigEndian.PutUint16(w.Msg[8:], authority.Count)
	msg = w.Msg
	w.Msg = nil
	return msg, additional.Count
}
