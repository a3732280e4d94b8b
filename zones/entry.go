package zones

import (
	"encoding/binary"
	"hash/maphash"
)

// entry is everything that is answered for one key, packed: a service with its
// aggregate and each cluster's part, a registered name, an alias target, a namespace, an
// empty non-terminal. All numbers are little-endian; offsets count from the start of the
// entry, inside of a part from the start of the part.
//
// Addresses are kept without their record headers (4 and 16 bytes each): owner, type,
// class and TTL are the same for all of them and are stamped while they are copied.
type entry []byte

// The header.
const (
	hClass   = 0  // uint8
	hFlags   = 1  // uint8
	hKeyLen  = 2  // uint16
	hTTL     = 4  // uint32, seconds; with hExpires the upper bound
	hExpires = 8  // int64, milliseconds of the publisher's clock; 0: TTL does not count down
	hA       = 16 // list: uint32 offset, uint32 count
	hAAAA    = 24 // list
	hText    = 32 // list: bytes
	hParts   = 40 // list: uint32 offsets of parts
	hSize    = 48 // uint32, bytes of the entry
	hHash    = 52 // uint32, by which the index finds it
	hWeigh4  = 56 // list: alias table of hA; empty: all addresses are alike
	hWeigh6  = 64 // list: of hAAAA
	hKey     = 72
)

// Flags of the header.
const (
	fExists   = 1 << iota // the name exists (in the aggregate, for a service)
	fUnknown              // nothing usable is known: SERVFAIL
	fWait                 // a question may wait for a first lookup
	fStale                // from a failing backend (EDE 3)
	fNoName               // an alias target that does not exist
	fEmpty                // an empty non-terminal: exists, has no records
	fPartial              // more may exist below the name: what is not there is unknown
	fNotReady             // since a source has never synced
)

// A part: the hosts of one site.
const (
	pCluster = 0  // uint16, noCluster for none
	pFlags   = 2  // uint8
	pSiteLen = 3  // uint8
	pA       = 4  // list, of the part alone
	pAAAA    = 12 // list
	pHosts   = 20 // list: hash table of uint32 offsets of hosts; count is a power of two
	pPorts   = 28 // list: ports
	pBare    = 36 // list: targets of SRV at the service's own name
	pAlias   = 44 // list: bytes of the alias target, wire form
	pLength  = 52 // uint32, bytes of the part
	pSite    = 56 // site's labels, wire form without a root byte
)

const noCluster = 0xffff

// Flags of a part.
const (
	pfAggregate = 1 << iota // its endpoints are in the aggregate or registered name
	pfOwn                   // it is the service in its cluster's own zone
	pfLingering             // only its hosts' names are served: no longer in the aggregate
)

// Entry classes, each with keys of its own.
const (
	classService   = 's' // service and namespace labels
	classNamespace = 'n' // namespace label
	classMesh      = 'm' // labels below the mesh zone
	classAlias     = 'x' // labels of an alias target
	classReverse   = 'r' // labels of the whole reverse name
)

func (e entry) key() []byte {
	return e[hKey : hKey+int(binary.LittleEndian.Uint16(e[hKeyLen:]))]
}

func (e entry) flag(f byte) bool  { return e[hFlags]&f != 0 }
func (e entry) u32(at int) uint32 { return binary.LittleEndian.Uint32(e[at:]) }

// list returns the bytes of a list of width-byte items.
func list(b []byte, at, width int) []byte {
	offset := binary.LittleEndian.Uint32(b[at:])
	n := binary.LittleEndian.Uint32(b[at+4:])
	return b[offset : int(offset)+int(n)*width]
}

func (e entry) addresses(typ uint16) []byte {
	if typ == typeA {
		return list(e, hA, 4)
	}
	return list(e, hAAAA, 16)
}

// weights is the alias table of addresses, empty where all are alike.
func (e entry) weights(typ uint16) []byte {
	if typ == typeA {
		return list(e, hWeigh4, aliasSize)
	}
	return list(e, hWeigh6, aliasSize)
}

func (e entry) text() []byte { return list(e, hText, 1) }

func (e entry) parts() int { return int(e.u32(hParts + 4)) }

// part is one site's hosts in an entry.
type part []byte

func (e entry) part(i int) part {
	table := e.u32(hParts)
	return part(e[e.u32(int(table)+4*i):])
}

// whole is the part's bytes and no more.
func (p part) whole() []byte {
	if p == nil {
		return nil
	}
	return p[:binary.LittleEndian.Uint32(p[pLength:])]
}

func (p part) flag(f byte) bool { return p[pFlags]&f != 0 }
func (p part) cluster() int     { return int(binary.LittleEndian.Uint16(p[pCluster:])) }
func (p part) site() []byte     { return p[pSite : pSite+int(p[pSiteLen])] }
func (p part) alias() []byte    { return list(p, pAlias, 1) }

func (p part) addresses(typ uint16) []byte {
	if typ == typeA {
		return list(p, pA, 4)
	}
	return list(p, pAAAA, 16)
}

func (p part) hasHosts() bool { return binary.LittleEndian.Uint32(p[pHosts+4:]) != 0 }

// host is a host of a part: label with its length byte, then counts and addresses.
type host []byte

// hostAt is the host at an offset of SRV targets and tables.
func (p part) hostAt(offset uint32) host { return host(p[offset:]) }

func (h host) label() []byte { return h[:1+h[0]] }

func (h host) addresses(typ uint16) []byte {
	at := 1 + int(h[0])
	nA := int(binary.LittleEndian.Uint16(h[at:]))
	nAAAA := int(binary.LittleEndian.Uint16(h[at+2:]))
	at += 4
	if typ == typeA {
		return h[at : at+4*nA]
	}
	at += 4 * nA
	return h[at : at+16*nAAAA]
}

// hostNamed finds a host by its label (with length byte), nil when there is none. seed is
// the one that the entry was packed with.
func (p part) hostNamed(seed maphash.Seed, label []byte) host {
	table := list(p, pHosts, 4)
	if len(table) == 0 {
		return nil
	}
	mask := uint32(len(table)/4 - 1)
	for i := uint32(maphash.Bytes(seed, label[1:])) & mask; ; i = (i + 1) & mask {
		offset := binary.LittleEndian.Uint32(table[4*i:])
		if offset == 0 {
			return nil
		}
		if h := p.hostAt(offset); string(h.label()) == string(label) {
			return h
		}
	}
}

// A port in a part: uint8 protocol, uint8 length of the name, uint32 offset and uint32
// count of its targets, then the name.
const (
	portHeader = 10
	targetSize = 6 // uint16 port number, uint32 offset of the host; 0: the service itself
)

// portNamed finds the targets of a port. ok is false when the part has no such port.
func (p part) portNamed(name, protocol []byte) (targets []byte, ok bool) {
	at := binary.LittleEndian.Uint32(p[pPorts:])
	for n := binary.LittleEndian.Uint32(p[pPorts+4:]); n > 0; n-- {
		port := p[at:]
		end := portHeader + int(port[1])
		if string(port[portHeader:end]) == string(name) && protocolLabel(port[0]) == string(protocol) {
			return list(p, int(at)+2, targetSize), true
		}
		at += uint32(end)
	}
	return nil, false
}

// hasProtocol says whether any named port of the part uses the protocol.
func (p part) hasProtocol(protocol []byte) bool {
	at := binary.LittleEndian.Uint32(p[pPorts:])
	for n := binary.LittleEndian.Uint32(p[pPorts+4:]); n > 0; n-- {
		port := p[at:]
		if protocolLabel(port[0]) == string(protocol) {
			return true
		}
		at += uint32(portHeader + int(port[1]))
	}
	return false
}

// eachPort calls f with every named port of the part, without the underscores.
func (p part) eachPort(f func(name, protocol string)) {
	at := binary.LittleEndian.Uint32(p[pPorts:])
	for n := binary.LittleEndian.Uint32(p[pPorts+4:]); n > 0; n-- {
		port := p[at:]
		end := portHeader + int(port[1])
		f(string(port[portHeader:end]), protocolLabel(port[0]))
		at += uint32(end)
	}
}

// eachHost calls f with every host of the part, in no order that means anything.
func (p part) eachHost(f func(host)) {
	for table := list(p, pHosts, 4); len(table) > 0; table = table[4:] {
		if offset := binary.LittleEndian.Uint32(table); offset != 0 {
			f(p.hostAt(offset))
		}
	}
}

func protocolLabel(p byte) string { return [...]string{"tcp", "udp", "sctp"}[p] }
