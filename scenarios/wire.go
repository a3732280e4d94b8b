package scenarios

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Header bits and sizes of RFC 1035 section 4.1.1.
const (
	headerSize = 12

	bitQR = 1 << 15
	bitAA = 1 << 10
	bitTC = 1 << 9
	bitRD = 1 << 8
	bitRA = 1 << 7
	bitZ  = 1 << 6
	bitAD = 1 << 5
	bitCD = 1 << 4

	opcodeMask = 0xf << 11
)

// layout is where things are in a message.
type layout struct {
	id, flags uint16
	counts    [4]int // of question, answer, authority, additional
	question  []byte // as it stands in the message, all of the section
	records   []recordSpan
}

// recordSpan is one record: offsets in the message.
type recordSpan struct {
	section     int // 1 answer, 2 authority, 3 additional
	owner       int // where the owner begins
	ownerWire   []byte
	rtype       uint16
	class       uint16
	ttl         uint32
	data        int // where RDATA begins
	length      int // RDLENGTH
	ownerIsLink bool
}

var errShort = errors.New("the message ends too early")

// readLayout walks over a message and fails when anything in it is not where its counts
// and lengths say, or when bytes are left over.
func readLayout(wire []byte) (*layout, error) {
	if len(wire) < headerSize {
		return nil, errShort
	}
	l := &layout{id: binary.BigEndian.Uint16(wire), flags: binary.BigEndian.Uint16(wire[2:])}
	for i := range l.counts {
		l.counts[i] = int(binary.BigEndian.Uint16(wire[4+2*i:]))
	}
	at, err := l.readQuestions(wire)
	if err != nil {
		return nil, err
	}
	for section := 1; section <= 3; section++ {
		for range l.counts[section] {
			var r recordSpan
			if r, at, err = readRecord(wire, at); err != nil {
				return nil, fmt.Errorf("record %d: %w", len(l.records)+1, err)
			}
			r.section = section
			l.records = append(l.records, r)
		}
	}
	if at != len(wire) {
		return nil, fmt.Errorf("%d bytes after the last record", len(wire)-at)
	}
	return l, nil
}

func (l *layout) readQuestions(wire []byte) (int, error) {
	at := headerSize
	for range l.counts[0] {
		_, next, _, err := readName(wire, at)
		if err != nil {
			return 0, fmt.Errorf("question: %w", err)
		}
		if at = next + 4; at > len(wire) {
			return 0, errShort
		}
	}
	l.question = wire[headerSize:at]
	return at, nil
}

func readRecord(wire []byte, at int) (recordSpan, int, error) {
	owner, next, links, err := readName(wire, at)
	if err != nil {
		return recordSpan{}, 0, err
	}
	if next+10 > len(wire) {
		return recordSpan{}, 0, errShort
	}
	r := recordSpan{
		owner:       at,
		ownerWire:   owner,
		ownerIsLink: links > 0,
		rtype:       binary.BigEndian.Uint16(wire[next:]),
		class:       binary.BigEndian.Uint16(wire[next+2:]),
		ttl:         binary.BigEndian.Uint32(wire[next+4:]),
		length:      int(binary.BigEndian.Uint16(wire[next+8:])),
		data:        next + 10,
	}
	if r.data+r.length > len(wire) {
		return recordSpan{}, 0, errShort
	}
	return r, r.data + r.length, nil
}

// readName reads the name at offset at: its uncompressed wire form in the spelling that
// stands there, where the message goes on, and how many compression pointers were
// followed. A pointer must point before the labels that it ends (RFC 1035 section 4.1.4).
func readName(wire []byte, at int) (name []byte, next, links int, err error) {
	limit, next := at, -1
	for {
		if at >= len(wire) {
			return nil, 0, 0, errShort
		}
		n := int(wire[at])
		switch {
		case n == 0:
			if next < 0 {
				next = at + 1
			}
			return append(name, 0), next, links, nil
		case n < 64:
			if at+1+n > len(wire) || len(name)+1+n > 254 {
				return nil, 0, 0, errors.New("a label or name is too long")
			}
			name = append(name, wire[at:at+1+n]...)
			at += 1 + n
		case n >= 0xc0:
			if at+2 > len(wire) {
				return nil, 0, 0, errShort
			}
			if next < 0 {
				next = at + 2
			}
			target := int(binary.BigEndian.Uint16(wire[at:])) & 0x3fff
			if target >= limit || target < headerSize {
				return nil, 0, 0, fmt.Errorf("compression pointer at %d to %d does not point back", at, target)
			}
			at, limit = target, target
			links++
		default:
			return nil, 0, 0, fmt.Errorf("label type 0x%02x", n&0xc0)
		}
	}
}

// lowerWire is a wire name with its letters lower-cased (length bytes are below 64, so
// they are never letters).
func lowerWire(name []byte) string {
	out := make([]byte, len(name))
	for i, c := range name {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		out[i] = c
	}
	return string(out)
}
