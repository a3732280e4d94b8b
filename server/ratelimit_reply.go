package server

import "encoding/binary"

// rate is the limit in force for a batch, and when the batch began.
type rate struct {
	*limiter
	at ticks
}

// takeRate takes the limit in force.
func (h *handler) takeRate() {
	h.rate.limiter = h.limits.current.Load()
	if h.rate.limiter != nil {
		h.rate.at = h.rate.clock()
	}
}

// limited is what is sent of a reply to the query at hand, which is whole. validCookie says
// that the client's address is not forged.
func (h *handler) limited(msg, query []byte, t *Transport, validCookie bool) ([]byte, Verdict) {
	if t.Protocol != UDP || validCookie {
		return msg, Reply
	}
	k := empty
	if binary.BigEndian.Uint16(msg[6:]) > 0 {
		k = answering
	}
	f := h.rate.decide(t.Client.Addr(), h.rate.at, k)
	if f == sent {
		return msg, Reply
	}
	h.shard.limited[f].Add(1)
	if f == dropped {
		return nil, Drop
	}
	return h.cut(msg, len(query)), Reply
}

// cut leaves of a reply its header, with TC, its question and its OPT, and options of that
// only if all is not longer than the query was.
func (h *handler) cut(msg []byte, atMost int) []byte {
	end := max(h.q.end, headerSize)
	opt := msg[len(msg):]
	if h.optAt > 0 {
		opt = msg[h.optAt:]
	}
	if len(opt) > optSize && end+len(opt) > atMost {
		opt = opt[:optSize]
		opt[optSize-2], opt[optSize-1] = 0, 0
	}
	msg = append(msg[:end], opt...)
	msg[2] |= bitTC
	clear(msg[6:headerSize])
	if len(opt) > 0 {
		msg[11] = 1
	}
	return msg
}
