package sources

import (
	"encoding/binary"
	"net/netip"
	"unsafe"
)

// Packed values. A Service, a Slice and a Ports are texts of bytes: one piece of memory
// without pointers, whatever they hold, so that a million endpoints cost the garbage
// collector next to nothing. They are immutable, compare with ==, serve as map keys, mean
// the same in every process, and what is taken out of one (a Slice of a Service, a name)
// is a part of its bytes and not a copy. The zero value "" says "none".
//
//	text     = uvarint length, bytes
//	Ports    = { protocol byte, number 2 bytes big-endian, text name }
//	Slice    = text name, text Ports, uvarint number of endpoints, { endpoint }
//	endpoint = byte state + 4 × family, 0, 4 or 16 bytes of address by family,
//	           text hostname
//	Service  = type byte, varint creation in seconds of Unix time,
//	           text external name, text equivalence label,
//	           text Slice of its own (no name, its ports, its cluster IPs), { text Slice }
//
// They are made by Pack and With only, and read without any check: bytes from elsewhere
// would have to be checked first.

// Address families of packed endpoints.
const (
	familyNone = iota
	family4
	family6

	familyShift = 2
	stateMask   = 1<<familyShift - 1
)

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// textSize is how many bytes appendText takes for a text of n bytes.
func textSize(n int) int {
	size := n + 1
	for ; n >= 0x80; n >>= 7 {
		size++
	}
	return size
}

// varintSize is how many bytes binary.AppendVarint takes for v.
func varintSize(v int64) int {
	var b [binary.MaxVarintLen64]byte
	return binary.PutVarint(b[:], v)
}

// packed is b as a text, without a copy: b must not be used any more.
func packed(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// cutText takes the text that s starts with.
func cutText(s string) (text, rest string) {
	n, rest := cutUvarint(s)
	return rest[:n], rest[n:]
}

func cutUvarint(s string) (n int, rest string) {
	if s[0] < 0x80 {
		return int(s[0]), s[1:]
	}
	return cutLong(s)
}

// cutLong is cutUvarint for what takes several bytes.
func cutLong(s string) (n int, rest string) {
	i := 0
	for shift := 0; ; shift += 7 {
		n |= int(s[i]&0x7f) << shift
		i++
		if s[i-1] < 0x80 {
			return n, s[i:]
		}
	}
}

// cutVarint reads what binary.AppendVarint wrote.
func cutVarint(s string) (v int64, rest string) {
	u, i := uint64(0), 0
	for shift := 0; ; shift += 7 {
		u |= uint64(s[i]&0x7f) << shift
		i++
		if s[i-1] < 0x80 {
			return int64(u>>1) ^ -int64(u&1), s[i:]
		}
	}
}

func appendPorts(b []byte, ports []Port) []byte {
	for _, p := range ports {
		b = append(b, byte(p.Protocol))
		b = binary.BigEndian.AppendUint16(b, p.Number)
		b = appendText(b, p.Name)
	}
	return b
}

// portHead is what a packed port has before its name.
const portHead = 3

func portsSize(ports []Port) (size int) {
	for _, p := range ports {
		size += portHead + textSize(len(p.Name))
	}
	return size
}

func appendEndpoint(b []byte, e *Endpoint) []byte {
	switch {
	case e.Address.Is4():
		a := e.Address.As4()
		b = append(b, byte(e.State)|family4<<familyShift)
		b = append(b, a[:]...)
	case e.Address.Is6():
		a := e.Address.As16()
		b = append(b, byte(e.State)|family6<<familyShift)
		b = append(b, a[:]...)
	default:
		b = append(b, byte(e.State))
	}
	return appendText(b, e.Hostname)
}

func endpointSize(e *Endpoint) int {
	return 1 + e.Address.BitLen()/8 + textSize(len(e.Hostname))
}

// cutAddress takes the address of the given family.
func cutAddress(s string, family byte) (netip.Addr, string) {
	switch family {
	case family4:
		return netip.AddrFrom4([4]byte{s[0], s[1], s[2], s[3]}), s[4:]
	case family6:
		var a [16]byte
		copy(a[:], s)
		return netip.AddrFrom16(a), s[16:]
	}
	return netip.Addr{}, s
}

func appendSlice(b []byte, f *SliceFields) []byte {
	b = appendText(b, f.Name)
	b = binary.AppendUvarint(b, uint64(portsSize(f.Ports)))
	b = appendPorts(b, f.Ports)
	b = binary.AppendUvarint(b, uint64(len(f.Endpoints)))
	for i := range f.Endpoints {
		b = appendEndpoint(b, &f.Endpoints[i])
	}
	return b
}

func sliceSize(f *SliceFields) int {
	size := textSize(len(f.Name)) + textSize(portsSize(f.Ports)) + textSize(len(f.Endpoints)) - len(f.Endpoints)
	for i := range f.Endpoints {
		size += endpointSize(&f.Endpoints[i])
	}
	return size
}
