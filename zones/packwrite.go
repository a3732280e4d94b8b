package zones

import (
	"encoding/binary"
	"slices"

	"github.com/meshdns/meshdns/names"
)

// finish writes the entry. It is valid until the next one is begun, and store.put's when
// it is big.
func (p *packer) finish() entry {
	if p.large.on {
		p.out = slices.Grow(p.out[:0], p.large.size+p.large.size/64)
	}
	p.out = append(p.out[:0], make([]byte, hKey)...)
	p.out = append(p.out, p.key...)
	p.out[hClass] = p.class
	binary.LittleEndian.PutUint16(p.out[hKeyLen:], uint16(len(p.key)))
	binary.LittleEndian.PutUint32(p.out[hTTL:], p.ttl)
	binary.LittleEndian.PutUint64(p.out[hExpires:], uint64(p.expires))
	only, n := p.aggregated()
	if n > 1 || n == 1 && only.flags&pfOwn == 0 {
		p.writeAggregate(only, n)
	}
	p.writeWeights()
	p.put(hText, span{uint32(len(p.out)), uint32(len(p.text))})
	p.out = append(p.out, p.text...)
	p.writeParts()
	if n == 1 && only.flags&pfOwn != 0 { // the part has the very lists
		p.put(hA, span{only.start + only.own4.offset, only.own4.count})
		p.put(hAAAA, span{only.start + only.own6.offset, only.own6.count})
	}
	if n > 0 {
		p.flags |= fExists
	}
	p.out[hFlags] = p.flags
	e := entry(p.out)
	if len(e) >= bigEntry { // it stays where it was built
		p.large.size, p.out = len(e), nil
	}
	return e
}

func (p *packer) put(at int, s span) {
	binary.LittleEndian.PutUint32(p.out[at:], s.offset)
	binary.LittleEndian.PutUint32(p.out[at+4:], s.count)
}

func (p *packer) writeParts() {
	table := len(p.out)
	p.put(hParts, span{uint32(table), uint32(p.used)})
	p.out = append(p.out, make([]byte, 4*p.used)...)
	for i := range p.parts[:p.used] {
		binary.LittleEndian.PutUint32(p.out[table+4*i:], uint32(len(p.out)))
		p.writePart(&p.parts[i])
	}
}

// aggregated are the builders whose endpoints are in the aggregate.
func (p *packer) aggregated() (only *partBuilder, n int) {
	for i := range p.parts[:p.used] {
		if b := &p.parts[i]; b.flags&pfAggregate != 0 && len(b.order4)+len(b.order6) > 0 {
			only = b
			n++
		}
	}
	return only, n
}

// writeAggregate writes the lists of the whole name, those of the parts without
// duplicates, right behind the key: what is asked most is what is read first.
func (p *packer) writeAggregate(only *partBuilder, n int) {
	p.set4.reset(p.count4(only, n))
	p.set6 = emptied(p.set6)
	at := uint32(len(p.out))
	p.eachAggregated(func(b *partBuilder) { p.out = p.set4.appendNew(p.out, b.order4) })
	p.put(hA, span{at, (uint32(len(p.out)) - at) / 4})
	at = uint32(len(p.out))
	p.eachAggregated(func(b *partBuilder) { p.out = appendNew6(p.out, p.set6, b.order6) })
	p.put(hAAAA, span{at, (uint32(len(p.out)) - at) / 16})
}

// writeWeights writes the alias tables of the whole name's lists.
func (p *packer) writeWeights() {
	if p.shares == nil {
		return
	}
	for _, l := range [...]struct{ addresses, weights, width int }{{hA, hWeigh4, 4}, {hAAAA, hWeigh6, 16}} {
		at := len(p.out)
		p.out = p.shares.appendAliases(p.out, list(p.out, l.addresses, l.width), l.width)
		p.put(l.weights, span{uint32(at), uint32(len(p.out)-at) / aliasSize})
	}
}

func (p *packer) count4(only *partBuilder, n int) int {
	if n == 1 {
		return len(only.order4)
	}
	total := 0
	p.eachAggregated(func(b *partBuilder) { total += len(b.order4) })
	return total
}

func (p *packer) eachAggregated(f func(*partBuilder)) {
	for i := range p.parts[:p.used] {
		if b := &p.parts[i]; b.flags&pfAggregate != 0 {
			f(b)
		}
	}
}

// writePart writes one part at the end of out.
func (p *packer) writePart(b *partBuilder) {
	start := len(p.out)
	b.start = uint32(start)
	w := partWriter{packer: p, b: b, start: start}
	p.out = append(p.out, make([]byte, pSite)...)
	binary.LittleEndian.PutUint16(p.out[start+pCluster:], b.cluster)
	p.out[start+pFlags] = b.flags
	p.out[start+pSiteLen] = byte(len(b.site))
	p.out = append(p.out, b.site...)
	w.put(pAlias, w.bytes(b.alias))
	if b.flags&pfOwn != 0 {
		w.ownLists()
	}
	w.hosts()
	w.ports()
	binary.LittleEndian.PutUint32(p.out[start+pLength:], w.here())
}

// partWriter writes a part: offsets count from start.
type partWriter struct {
	*packer
	b     *partBuilder
	start int
}

func (w *partWriter) here() uint32 { return uint32(len(w.out) - w.start) }

func (w *partWriter) put(at int, s span) { w.packer.put(w.start+at, s) }

func (w *partWriter) bytes(s string) span {
	at := w.here()
	w.out = append(w.out, s...)
	return span{at, uint32(len(s))}
}

// ownLists writes the addresses that the service has in its cluster's own zone.
func (w *partWriter) ownLists() {
	at := w.here()
	w.set4.reset(len(w.b.order4))
	w.out = w.set4.appendNew(w.out, w.b.order4)
	w.b.own4 = span{at, (w.here() - at) / 4}
	w.put(pA, w.b.own4)
	at = w.here()
	w.set6 = emptied(w.set6)
	w.out = appendNew6(w.out, w.set6, w.b.order6)
	w.b.own6 = span{at, (w.here() - at) / 16}
	w.put(pAAAA, w.b.own6)
}

// hosts writes the hosts and then the table that finds them.
func (w *partWriter) hosts() {
	switch {
	case len(w.b.used) > 0:
		w.largeHosts()
		return
	case len(w.b.hosts) == 0:
		return
	}
	for i := range w.b.hosts {
		w.host(&w.b.hosts[i])
	}
	size := tableSize(len(w.b.hosts))
	w.put(pHosts, span{w.here(), uint32(size)})
	at := len(w.out)
	w.out = append(w.out, make([]byte, 4*size)...)
	table := w.out[at:]
	mask := uint32(size - 1)
	for i := range w.b.hosts {
		h := &w.b.hosts[i]
		slot := h.hash & mask
		for binary.LittleEndian.Uint32(table[4*slot:]) != 0 {
			slot = (slot + 1) & mask
		}
		binary.LittleEndian.PutUint32(table[4*slot:], h.written)
	}
}

func (w *partWriter) host(h *hostBuilder) {
	h.written = w.here()
	out := append(w.out, w.b.label(h)...)
	out = append(out, byte(h.n4), byte(h.n4>>8), byte(h.n6), byte(h.n6>>8))
	for i := h.head4; i >= 0; i = w.b.addrs4[i].next {
		out = append(out, w.b.addrs4[i].addr[:]...)
	}
	for i := h.head6; i >= 0; i = w.b.addrs6[i].next {
		out = append(out, w.b.addrs6[i].addr[:]...)
	}
	w.out = out
}

// ports writes the SRV targets and the named ports. With one port the bare name has the
// same targets: they are written once.
func (w *partWriter) ports() {
	var few [8]span
	spans := few[:]
	if len(w.b.ports) > len(few) {
		spans = make([]span, len(w.b.ports))
	}
	spans = spans[:len(w.b.ports)]
	named := 0
	for i := range w.b.ports {
		spans[i] = w.targets(int32(i), w.b.ports[i].targets)
		if w.isNamed(&w.b.ports[i]) {
			named++
		}
	}
	bare := span{}
	if len(spans) == 1 {
		bare = spans[0]
	} else {
		bare = w.targets(-1, w.b.bare)
	}
	w.put(pBare, bare)
	w.put(pPorts, span{w.here(), uint32(named)})
	for i := range w.b.ports {
		if w.isNamed(&w.b.ports[i]) {
			w.port(&w.b.ports[i], spans[i])
		}
	}
}

func (w *partWriter) isNamed(b *portBuilder) bool {
	return b.name != "" && len(b.name) < names.MaxLabel
}

// targets writes the targets of a port, -1: of the bare name.
func (w *partWriter) targets(port int32, ts []target) span {
	if len(w.b.used) > 0 {
		return w.largeTargets(port)
	}
	at := w.here()
	start := len(w.out)
	w.out = append(w.out, make([]byte, len(ts)*targetSize)...)
	for i, t := range ts {
		record := w.out[start+i*targetSize:]
		binary.LittleEndian.PutUint16(record, t.number)
		if t.host >= 0 {
			binary.LittleEndian.PutUint32(record[2:], w.b.hosts[t.host].written)
		}
	}
	return span{at, uint32(len(ts))}
}

func (w *partWriter) port(b *portBuilder, targets span) {
	w.out = append(w.out, byte(b.protocol), byte(len(b.name)))
	w.out = binary.LittleEndian.AppendUint32(w.out, targets.offset)
	w.out = binary.LittleEndian.AppendUint32(w.out, targets.count)
	w.out = append(w.out, b.name...)
}
