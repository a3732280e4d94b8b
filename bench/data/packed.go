package data

import (
	"encoding/binary"
	"strings"
)

// Question is the name of service i in wire form (RFC 1035, section 3.1), lower case.
func (f Fleet) Question(i int) []byte {
	var wire []byte
	for label := range strings.SplitSeq(f.Host(i), ".") {
		wire = append(append(wire, byte(len(label))), label...)
	}
	return append(wire, 0)
}

// Packed are the A records of service i in wire form; their owner is a pointer to the
// question (RFC 1035, section 4.1.4).
func (f Fleet) Packed(i int) []byte {
	const questionAt, typeA, classIN = 12, 1, 1
	var wire []byte
	for _, address := range f.Addresses(i) {
		wire = binary.BigEndian.AppendUint16(wire, 0xc000|questionAt)
		wire = binary.BigEndian.AppendUint16(wire, typeA)
		wire = binary.BigEndian.AppendUint16(wire, classIN)
		wire = binary.BigEndian.AppendUint32(wire, uint32(f.TTL))
		wire = binary.BigEndian.AppendUint16(wire, uint16(len(address.AsSlice())))
		wire = append(wire, address.AsSlice()...)
	}
	return wire
}
