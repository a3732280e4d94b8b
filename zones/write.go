package zones

import (
	"encoding/binary"
	"math/bits"
	"math/rand/v2"
	"slices"
)

// questionOffset is where a message's question, and so its name, begins.
const questionOffset = 12

// Writer appends an Answer's records to a message whose header and question are there
// already. A Writer belongs to one goroutine and reuses its memory.
type Writer struct {
	Msg   []byte
	Limit int // bytes that Msg may have in the end
	Rand  *rand.PCG

	perm    []uint32 // identity between calls
	swapped []uint32
	glued   []gluedTarget
}

// gluedTarget is an SRV target that stands in the message: where its name is, and the
// addresses of it.
type gluedTarget struct {
	at     int
	v4, v6 []byte
}

// Records says how many records of a section were written, and whether some were left
// out for want of room.
type Records struct {
	Count uint16
	Cut   bool
}

// WriteAnswer writes the ANSWER section: as many whole records as fit, in random order,
// aliases first and in theirs. now is View.Clock, read only when CountsDown.
func (w *Writer) WriteAnswer(a *Answer, now int64) Records {
	w.glued = w.glued[:0]
	ttl := a.remaining(now)
	owner, r := w.writeChain(a, now)
	if a.Status != Found || r.Cut {
		return r
	}
	var rest Records
	switch a.Type {
	case typeA:
		rest = w.addresses(owner, ttl, addressSet{typeA, 4, a.list, a.weights})
	case typeAAAA:
		rest = w.addresses(owner, ttl, addressSet{typeAAAA, 16, a.list, a.weights})
	case typeSRV:
		rest = w.services(a, owner, ttl)
	case typeCNAME:
		rest = w.single(owner, typeCNAME, ttl, a.alias)
	case typePTR:
		rest = w.single(owner, typePTR, ttl, a.text)
	case typeTXT:
		rest = w.txt(owner, ttl, a.text)
	case typeSOA:
		rest = w.soa(a, owner)
	case typeNS:
		rest = w.nameservers(a, owner, ttl)
	}
	rest.Count += r.Count
	return rest
}

// writeChain writes the aliases and returns the pointer to the last one's target.
func (w *Writer) writeChain(a *Answer, now int64) (owner uint16, r Records) {
	owner = questionOffset
	for _, alias := range a.chain {
		at := len(w.Msg) + headSize
		one := w.single(owner, typeCNAME, remaining(alias.ttl, alias.expires, now), alias.target)
		if one.Cut {
			r.Cut = true
			return owner, r
		}
		r.Count++
		owner = uint16(at)
	}
	return owner, r
}

// head is a record up to its RDATA: a pointer to the owner, type, class IN, TTL, length.
func (w *Writer) head(owner, typ uint16, ttl uint32, length int) {
	w.Msg = append(w.Msg,
		0xc0|byte(owner>>8), byte(owner),
		byte(typ>>8), byte(typ), 0, classIN,
		byte(ttl>>24), byte(ttl>>16), byte(ttl>>8), byte(ttl),
		byte(length>>8), byte(length))
}

const (
	headSize = 12
	classIN  = 1
)

// addressSet is addresses of one family, width bytes each; weights is their alias table,
// empty where all are alike.
type addressSet struct {
	typ           uint16
	width         int
	list, weights []byte
}

// addresses writes A or AAAA records: a partial Fisher-Yates shuffle of those that fit.
// Where there are weights, the first place is drawn by them.
func (w *Writer) addresses(owner uint16, ttl uint32, a addressSet) Records {
	n, width := len(a.list)/a.width, a.width
	fit := min(n, (w.Limit-len(w.Msg))/(headSize+width))
	if fit <= 0 {
		return Records{Cut: n > 0}
	}
	out := w.extend(fit * (headSize + width))
	d := dice{rand: w.Rand}
	first := d.below(uint32(n))
	if len(a.weights) > 0 {
		first = w.drawn(a.weights)
	}
	switch {
	case n > few:
		for i, j := range w.shuffled(n, fit, first, &d) {
			at := out[i*(headSize+width):]
			stampHead(at, owner, a.typ, ttl, width)
			copy(at[headSize:headSize+width], a.list[int(j)*width:])
		}
		w.restore()
	case width == 4:
		fewA(out, owner, ttl, a.list, first, &d)
	default:
		fewAAAA(out, owner, ttl, a.list, first, &d)
	}
	return Records{Count: uint16(fit), Cut: fit < n}
}

// few is up to how many addresses are shuffled in a register rather than in a table.
const few = 16

// order is the addresses that are still to be written, four bits for each.
type order uint64

const inOrder order = 0xfedcba9876543210

// take takes the r-th address out, the lowest bits' being the first; that one moves up to
// its place. It is a step of a Fisher-Yates shuffle.
func (o *order) take(r uint32) int {
	shift := 4 * r & 63
	taken := *o >> shift & 15
	*o = (*o ^ (*o&15^taken)<<shift) >> 4
	return int(taken)
}

// fewA fills out with A records of a list, the first one given, the others in random order.
func fewA(out []byte, owner uint16, ttl uint32, list []byte, next uint32, d *dice) {
	left := inOrder
	// The head as it stands in memory: pointer, type, class, TTL, length.
	first := uint64(bits.ReverseBytes16(0xc000|owner)) | uint64(bits.ReverseBytes16(typeA))<<16 |
		0x0100<<32 | uint64(bits.ReverseBytes16(uint16(ttl>>16)))<<48
	second := uint64(bits.ReverseBytes16(uint16(ttl))) | 0x0400<<16
	for n := uint32(len(list)/4) - 1; ; n-- {
		at := 4 * left.take(next)
		binary.LittleEndian.PutUint64(out, first)
		binary.LittleEndian.PutUint64(out[8:], second|uint64(binary.LittleEndian.Uint32(list[at:at+4]))<<32)
		if out = out[headSize+4:]; len(out) == 0 {
			return
		}
		next = d.below(n)
	}
}

// fewAAAA is fewA for AAAA records.
func fewAAAA(out []byte, owner uint16, ttl uint32, list []byte, next uint32, d *dice) {
	left := inOrder
	for n := uint32(len(list)/16) - 1; ; n-- {
		at := 16 * left.take(next)
		stampHead(out, owner, typeAAAA, ttl, 16)
		copy(out[headSize:headSize+16], list[at:at+16])
		if out = out[headSize+16:]; len(out) == 0 {
			return
		}
		next = d.below(n)
	}
}

// extend makes the message n bytes longer and returns them.
func (w *Writer) extend(n int) []byte {
	at := len(w.Msg)
	if cap(w.Msg)-at < n {
		w.Msg = slices.Grow(w.Msg, n)
	}
	w.Msg = w.Msg[:at+n]
	return w.Msg[at:]
}

// stampHead writes at b what head appends.
func stampHead(b []byte, owner, typ uint16, ttl uint32, length int) {
	_ = b[headSize-1]
	binary.BigEndian.PutUint16(b, 0xc000|owner)
	binary.BigEndian.PutUint16(b[2:], typ)
	binary.BigEndian.PutUint16(b[4:], classIN)
	binary.BigEndian.PutUint32(b[6:], ttl)
	binary.BigEndian.PutUint16(b[10:], uint16(length))
}

// dice gives random numbers below small bounds, several from one draw of 64 bits: the
// product of a draw's bounds stays below 2^32, so that no number is more than 2^-32
// likelier than another.
type dice struct {
	rand *rand.PCG
	left uint64 // of the draw, as a fraction of 2^64
	used uint64 // product of the bounds so far; 0: nothing is drawn
}

func (d *dice) below(n uint32) uint32 {
	d.used *= uint64(n)
	if d.used-1 >= 1<<32 {
		d.left, d.used = d.rand.Uint64(), uint64(n)
	}
	number, left := bits.Mul64(d.left, uint64(n))
	d.left = left
	return uint32(number)
}

// shuffled returns k different numbers below n, the first one given, the others in any
// order with equal likelihood. restore must follow before the next call. The swaps are
// undone instead of the whole table being made anew, so that the cost is that of k, not
// of n.
func (w *Writer) shuffled(n, k int, next uint32, d *dice) []uint32 {
	for len(w.perm) < n {
		w.perm = append(w.perm, uint32(len(w.perm)))
	}
	w.swapped = w.swapped[:0]
	for i := range k {
		if i > 0 {
			next = d.below(uint32(n - i))
		}
		j := uint32(i) + next
		w.perm[i], w.perm[j] = w.perm[j], w.perm[i]
		w.swapped = append(w.swapped, j)
	}
	return w.perm[:k]
}

func (w *Writer) restore() {
	for i := len(w.swapped) - 1; i >= 0; i-- {
		j := w.swapped[i]
		w.perm[i], w.perm[j] = w.perm[j], w.perm[i]
	}
}

// services writes SRV records in random order, targets in full (RFC 2782: no
// compression).
func (w *Writer) services(a *Answer, owner uint16, ttl uint32) (r Records) {
	d := dice{rand: w.Rand}
	for _, i := range w.shuffled(a.count, min(a.count, 0xffff), d.below(uint32(a.count)), &d) {
		if !w.service(a, owner, ttl, int(i)) {
			r.Cut = true
			break
		}
		r.Count++
	}
	w.restore()
	return r
}

// service writes the i-th target; false when it does not fit.
func (w *Writer) service(a *Answer, owner uint16, ttl uint32, i int) bool {
	t := a.targetAt(&i)
	record := t.targets[i*targetSize:]
	offset := binary.LittleEndian.Uint32(record[2:])
	var label, site []byte
	v4, v6 := a.root4, a.root6
	if offset != 0 {
		h := t.part.hostAt(offset)
		label = h.label()
		v4, v6 = h.addresses(typeA), h.addresses(typeAAAA)
		if t.sited {
			site = t.part.site()
		}
	}
	svc := ""
	if a.svc {
		svc = labelSvc
	}
	length := 6 + len(label) + len(site) + len(a.base) + len(svc) + len(a.Zone.wire)
	if len(w.Msg)+headSize+length > w.Limit {
		return false
	}
	w.head(owner, typeSRV, ttl, length)
	// Priority and weight 0: endpoints are equal; the port is stored little-endian.
	w.Msg = append(w.Msg, 0, 0, 0, 0, record[1], record[0])
	w.glue(len(w.Msg), v4, v6)
	w.Msg = append(w.Msg, label...)
	w.Msg = append(w.Msg, site...)
	w.Msg = append(w.Msg, a.base...)
	w.Msg = append(w.Msg, svc...)
	w.Msg = append(w.Msg, a.Zone.wire...)
	return true
}

// targetAt finds the list that target i of all is in, and makes i its place there.
func (a *Answer) targetAt(i *int) *targetList {
	for j := range a.targets {
		t := &a.targets[j]
		n := len(t.targets) / targetSize
		if *i < n {
			return t
		}
		*i -= n
	}
	return nil
}

// glue remembers a target for ADDITIONAL, once.
func (w *Writer) glue(at int, v4, v6 []byte) {
	if at > 0x3fff { // out of reach of a compression pointer
		return
	}
	for i := range w.glued {
		g := &w.glued[i]
		if same(g.v4, v4) && same(g.v6, v6) {
			return
		}
	}
	w.glued = append(w.glued, gluedTarget{at, v4, v6})
}

// same says whether two lists are the same memory.
func same(a, b []byte) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// single writes one record whose RDATA is given.
func (w *Writer) single(owner, typ uint16, ttl uint32, rdata []byte) Records {
	if len(w.Msg)+headSize+len(rdata) > w.Limit {
		return Records{Cut: true}
	}
	w.head(owner, typ, ttl, len(rdata))
	w.Msg = append(w.Msg, rdata...)
	return Records{Count: 1}
}

// maxString is the longest character-string of RFC 1035 section 3.3.
const maxString = 255

// txt writes one TXT record; a text over 255 bytes becomes several strings.
func (w *Writer) txt(owner uint16, ttl uint32, text []byte) Records {
	length := len(text) + (len(text)+maxString-1)/maxString
	if len(w.Msg)+headSize+length > w.Limit {
		return Records{Cut: true}
	}
	w.head(owner, typeTXT, ttl, length)
	for len(text) > 0 {
		n := min(len(text), maxString)
		w.Msg = append(w.Msg, byte(n))
		w.Msg = append(w.Msg, text[:n]...)
		text = text[n:]
	}
	return Records{Count: 1}
}

// soa writes the zone's SOA; its TTL is its MINIMUM (C158).
func (w *Writer) soa(a *Answer, owner uint16) Records {
	z := a.Zone
	length := len(z.mname) + len(z.rname) + 20
	if len(w.Msg)+headSize+length > w.Limit {
		return Records{Cut: true}
	}
	w.head(owner, typeSOA, z.negativeTTL, length)
	w.Msg = append(w.Msg, z.mname...)
	w.Msg = append(w.Msg, z.rname...)
	for _, v := range [...]uint32{a.Serial, soaRefresh, soaRetry, soaExpire, z.negativeTTL} {
		w.Msg = binary.BigEndian.AppendUint32(w.Msg, v)
	}
	return Records{Count: 1}
}

func (w *Writer) nameservers(a *Answer, owner uint16, ttl uint32) (r Records) {
	for _, target := range a.Zone.ns {
		at := len(w.Msg) + headSize
		one := w.single(owner, typeNS, ttl, target)
		if one.Cut {
			r.Cut = true
			return r
		}
		r.Count++
		if f := a.Zone.fixed[a.Zone.relative(target)]; f != nil {
			w.glue(at, f.a, f.aaaa)
		}
	}
	return r
}

// relative is a target's labels below the zone; "" when it is outside.
func (z *Zone) relative(target []byte) string {
	if len(target) <= len(z.wire) || string(target[len(target)-len(z.wire):]) != z.wire {
		return ""
	}
	return string(target[:len(target)-len(z.wire)])
}

// WriteAuthority writes the SOA of a negative answer (RFC 2308 section 3) when the
// answer's end is in one of our zones.
func (w *Writer) WriteAuthority(a *Answer, nameLabels int) Records {
	if a.Status != NoData && a.Status != NoName || a.Zone == nil {
		return Records{}
	}
	if len(a.chain) == 0 {
		return w.soa(a, w.zoneOwner(questionOffset, nameLabels-a.Zone.labels))
	}
	last := a.chain[len(a.chain)-1].target
	owner := w.lastTarget(a)
	return w.soa(a, w.zoneOwner(owner, labelsOf(last)-a.Zone.labels))
}

// zoneOwner is the offset of what follows the first n labels of the name at an offset.
func (w *Writer) zoneOwner(at uint16, n int) uint16 {
	for range n {
		at += 1 + uint16(w.Msg[at])
	}
	return at
}

// lastTarget is the offset of the last alias target, which WriteAnswer wrote at the end.
func (w *Writer) lastTarget(a *Answer) uint16 {
	return uint16(len(w.Msg) - len(a.chain[len(a.chain)-1].target))
}

func labelsOf(wire []byte) int {
	n := 0
	for i := 0; wire[i] != 0; i += 1 + int(wire[i]) {
		n++
	}
	return n
}

// WriteAdditional writes the addresses of the targets that WriteAnswer wrote. A target's
// set is written whole or not at all, so that it equals the target's own answer (C68);
// leaving one out is no truncation (RFC 2181 section 9, C35).
func (w *Writer) WriteAdditional(a *Answer, now int64) Records {
	var r Records
	ttl := a.remaining(now)
	for i := range w.glued {
		g := &w.glued[i]
		n4, n6 := len(g.v4)/4, len(g.v6)/16
		size := n4*(headSize+4) + n6*(headSize+16)
		if len(w.Msg)+size > w.Limit || int(r.Count)+n4+n6 > 0xffff {
			continue
		}
		w.addresses(uint16(g.at), ttl, addressSet{typ: typeA, width: 4, list: g.v4})
		w.addresses(uint16(g.at), ttl, addressSet{typ: typeAAAA, width: 16, list: g.v6})
		r.Count += uint16(n4 + n6)
	}
	return r
}
