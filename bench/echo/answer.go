package main

import (
	"github.com/meshdns/meshdns/bench/data"
)

const (
	headerSize = 12
	// fixedTail is the type and class of a question.
	fixedTail = 4
	maxName   = 255
)

// answers are packed records by the wire form of lower-case names.
type answers struct {
	byName map[string][]byte
	fixed  []byte // when set, the records for every name
	count  byte   // of records in each answer
}

func newAnswers(f data.Fleet, fixed bool) *answers {
	a := &answers{count: byte(f.Clusters * f.PerSlice)}
	if fixed {
		a.fixed = f.Packed(0)
		return a
	}
	a.byName = make(map[string][]byte, f.Services)
	for i := range f.Services {
		a.byName[string(f.Question(i))] = f.Packed(i)
	}
	return a
}

// reply appends the reply to query to out[:0]; nil when there is nothing to say.
func (a *answers) reply(out, query []byte) []byte {
	var name [maxName]byte
	if len(query) < headerSize+1+fixedTail {
		return nil
	}
	n := lowerName(&name, query[headerSize:])
	end := headerSize + n + fixedTail
	if n == 0 || end > len(query) {
		return nil
	}
	records := a.fixed
	if records == nil {
		records = a.byName[string(name[:n])]
	}
	out = append(append(out[:0], query[:end]...), records...)
	out[2], out[3] = 0x84|query[2]&1, 0 // QR, AA, RD as asked
	clear(out[6:headerSize])
	if records == nil {
		out[3] = 3 // NXDOMAIN
		return out
	}
	out[7] = a.count
	return out
}

// lowerName copies the name that wire begins with, in lower case, and gives its length; 0
// when it does not end.
func lowerName(name *[maxName]byte, wire []byte) int {
	for i := 0; i < len(wire) && i < maxName; {
		length := int(wire[i])
		name[i] = wire[i]
		i++
		if length == 0 {
			return i
		}
		if i+length > min(len(wire), maxName) {
			return 0
		}
		for end := i + length; i < end; i++ {
			c := wire[i]
			if 'A' <= c && c <= 'Z' {
				c += 'a' - 'A'
			}
			name[i] = c
		}
	}
	return 0
}
