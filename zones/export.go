package zones

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/miekg/dns"

	"github.com/meshdns/meshdns/names"
)

// Export writes a zone of the view as a zone file (RFC 1035 section 5): SOA and NS, then
// all names with records in canonical order (RFC 4034 section 6.1), each RRset in that of
// its RDATA (section 6.3). What a name's records are is asked of Lookup, so that the file
// says what is answered. Empty non-terminals need no line. A name that is SERVFAIL at the
// moment is a comment: it is missing from the file, but it is not absent; and so is a
// service without records.
//
// found is false, and nothing has been written, when the view has no such zone. Memory is
// that of the zone's largest service, and four bytes for each service.
func (v *View) Export(w io.Writer, zone names.Name) (found bool, err error) {
	z := v.zones.byWire[zone.Wire()]
	if z == nil {
		return false, nil
	}
	x := &exporter{view: v, zone: z, now: v.Clock(), out: bufio.NewWriterSize(w, exportBuffer)}
	x.writer.Limit = math.MaxInt
	x.heading()
	x.owner("")
	err = x.below()
	if err == nil {
		x.comment("end of zone %s", z.Name)
		err = x.out.Flush()
	}
	return true, err
}

// exportBuffer is how much is written at once.
const exportBuffer = 32 << 10

// exporter writes one zone. Names are relative to it, in wire form without a root byte.
type exporter struct {
	view   *View
	zone   *Zone
	now    int64 // of View.Clock, for TTLs that count down
	out    *bufio.Writer
	query  Query
	answer Answer
	writer Writer
	batch  []exported
}

// exported is a name that may have records. named: it is a service or a registered name,
// which exists without records too; partial: more may exist at it or below.
type exported struct {
	name           string
	named, partial bool
}

func (x *exporter) comment(format string, args ...any) {
	fmt.Fprintf(x.out, "; "+format+"\n", args...)
}

// heading says what the zone is, and what keeps it from being whole.
func (x *exporter) heading() {
	v, z := x.view, x.zone
	x.comment("zone %s, serial %d", z.Name, v.serials[z.number])
	switch z.Kind {
	case Mesh:
		if v.meshUnready {
			x.comment("a source of registered names has never been listed whole: names may be missing")
		}
	case Aggregate:
		for _, c := range v.unreadySet {
			x.comment("cluster %s has never been listed whole: its names may be missing", v.snapshot.Clusters[c].Name)
		}
	case Cluster:
		x.headingOfCluster(z.cluster)
	case Reverse:
		if v.unreadySite() {
			x.comment("the site's cluster has never been listed whole: names may be missing")
		}
	}
}

func (x *exporter) headingOfCluster(c int) {
	name := x.view.snapshot.Clusters[c].Name
	switch {
	case x.view.expired[c]:
		x.comment("what is known of cluster %s is too old to be served: all its names are missing", name)
	case x.view.unready[c]:
		x.comment("cluster %s has never been listed whole: its names may be missing", name)
	}
}

// below writes all names below the apex. Names at or below one that was there before are
// collected with it, since canonical order puts them behind each other.
func (x *exporter) below() error {
	fixed := x.fixedNames()
	for _, p := range x.view.index.inOrder(x.holds()) {
		e := x.view.index.entry(p)
		name := x.relative(e)
		for len(fixed) > 0 && canonicalOrder(fixed[0], name) < 0 {
			if err := x.take(fixed[0]); err != nil {
				return err
			}
			fixed = fixed[1:]
		}
		if err := x.take(name); err != nil {
			return err
		}
		x.collect(e, name)
	}
	for _, name := range fixed {
		if err := x.take(name); err != nil {
			return err
		}
	}
	return x.flush()
}

func (x *exporter) fixedNames() []string {
	var list []string
	for name := range x.zone.fixed {
		list = append(list, name)
	}
	slices.SortFunc(list, canonicalOrder[string])
	return list
}

// holds says which entries have names in the zone.
func (x *exporter) holds() func(entry) bool {
	z := x.zone
	class := byte(classService)
	suffix := []byte(z.wire[:len(z.wire)-1])
	switch z.Kind {
	case Mesh:
		class = classMesh
	case Reverse:
		class = classReverse
	}
	return func(e entry) bool {
		switch {
		case e[hClass] != class || e.flag(fEmpty):
			return false
		case z.Kind == Aggregate:
			return e.flag(fExists | fUnknown)
		case z.Kind == Cluster:
			return e.ownPart(z.cluster) != nil
		case z.Kind == Reverse:
			return hasLabelSuffix(e.key(), suffix)
		}
		return true
	}
}

// relative is the name of an entry.
func (x *exporter) relative(e entry) string {
	switch x.zone.Kind {
	case Aggregate, Cluster:
		return string(e.key()) + labelSvc
	case Reverse:
		return string(e.key()[:len(e.key())-len(x.zone.wire)+1])
	}
	return string(e.key())
}

// take adds a name to the batch, after writing the batch when the name is not below it.
func (x *exporter) take(name string) error {
	if len(x.batch) > 0 && !hasLabelSuffix([]byte(name), []byte(x.batch[0].name)) {
		if err := x.flush(); err != nil {
			return err
		}
	}
	x.batch = append(x.batch, exported{name: name})
	return nil
}

// collect adds all names inside of an entry to the batch.
func (x *exporter) collect(e entry, name string) {
	if x.zone.Kind == Reverse {
		return
	}
	root := &x.batch[len(x.batch)-1]
	root.named = true
	if x.zone.Kind == Cluster {
		x.collectPart(e.ownPart(x.zone.cluster), name, false)
		return
	}
	root.partial = e.flag(fPartial|fWait) && !e.flag(fUnknown)
	if len(e.text()) > 0 {
		x.batch = append(x.batch, exported{name: labelIdentity + name})
	}
	for i := range e.parts() {
		if p := e.part(i); p.flag(pfAggregate | pfLingering) {
			x.collectPart(p, name, true)
		}
	}
}

// collectPart adds the names of a part's ports and hosts; sited: hosts stand under the
// part's site.
func (x *exporter) collectPart(p part, name string, sited bool) {
	p.eachPort(func(port, protocol string) {
		x.batch = append(x.batch, exported{name: underscore(port) + underscore(protocol) + name})
	})
	if sited {
		name = string(p.site()) + name
	}
	p.eachHost(func(h host) {
		x.batch = append(x.batch, exported{name: string(h.label()) + name})
	})
}

// underscore is a label with an underscore before it, wire form.
func underscore(label string) string { return string(rune(1+len(label))) + "_" + label }

// flush writes the batch in canonical order, each name once.
func (x *exporter) flush() error {
	slices.SortStableFunc(x.batch, func(a, b exported) int { return canonicalOrder(a.name, b.name) })
	for i, n := range x.batch {
		if i > 0 && n.name == x.batch[i-1].name {
			continue
		}
		any := x.owner(n.name)
		if n.named && !any {
			x.comment("%s exists, without records", presented(x.query.Name))
		}
		if n.partial {
			x.comment("%s may have more: a backend of it has no usable data", presented(x.query.Name))
		}
	}
	x.batch = x.batch[:0]
	_, err := x.out.Write(nil) // bufio keeps the first error
	return err
}

// The types that are asked for: at the apex, and below it, where an alias comes first since
// it excludes all others and would be followed.
var (
	apexTypes  = []uint16{typeSOA, typeNS}
	innerTypes = []uint16{typeCNAME, typeA, typeAAAA, typeSRV, typeTXT, typePTR}
)

// owner writes all records of one name, and says whether there is any line.
func (x *exporter) owner(relative string) (any bool) {
	x.query.SetName(append([]byte(relative), x.zone.wire...))
	x.query.NoWait = true
	types := innerTypes
	if relative == "" {
		types = apexTypes
	}
	for _, typ := range types {
		x.query.Type = typ
		x.view.Lookup(&x.query, &x.answer)
		switch x.answer.Status {
		case Found:
			x.rrset()
			any = true
			if typ == typeCNAME {
				return any
			}
		case NotReady, Unavailable:
			x.comment("%s is missing: what could answer has no usable data (SERVFAIL)", presented(x.query.Name))
			return true
		}
	}
	return any
}

// rrset writes the answer's records.
func (x *exporter) rrset() {
	x.writer.Msg = append(append(x.writer.Msg[:0], make([]byte, questionOffset)...), x.query.Name...)
	start := len(x.writer.Msg)
	var lines []exportedLine
	for i := range x.answer.records() {
		x.writer.Msg = x.writer.Msg[:start]
		x.writer.record(&x.answer, x.answer.remaining(x.now), i)
		rr, _, err := dns.UnpackRR(x.writer.Msg, start)
		if err != nil { // our own bytes: a record that miekg/dns cannot read is none
			x.comment("%s has a record that cannot be written: %v", presented(x.query.Name), err)
			continue
		}
		lines = append(lines, exportedLine{string(x.writer.Msg[start+headSize:]), rr.String()})
	}
	slices.SortFunc(lines, func(a, b exportedLine) int { return strings.Compare(a.rdata, b.rdata) })
	for _, l := range lines {
		_, _ = x.out.WriteString(l.text)
		_ = x.out.WriteByte('\n')
	}
}

type exportedLine struct{ rdata, text string }

// records is how many records an answer has.
func (a *Answer) records() int {
	switch a.Type {
	case typeA:
		return len(a.list) / 4
	case typeAAAA:
		return len(a.list) / 16
	case typeSRV:
		return a.count
	case typeNS:
		return len(a.Zone.ns)
	}
	return 1
}

// record writes the i-th record of an answer, whose owner stands where a question would.
func (w *Writer) record(a *Answer, ttl uint32, i int) {
	w.glued = w.glued[:0]
	switch a.Type {
	case typeA:
		w.single(questionOffset, typeA, ttl, a.list[4*i:4*i+4])
	case typeAAAA:
		w.single(questionOffset, typeAAAA, ttl, a.list[16*i:16*i+16])
	case typeSRV:
		w.service(a, questionOffset, ttl, i)
	case typeNS:
		w.single(questionOffset, typeNS, ttl, a.Zone.ns[i])
	case typeSOA:
		w.soa(a, questionOffset)
	case typeTXT:
		w.txt(questionOffset, ttl, a.text)
	case typePTR:
		w.single(questionOffset, typePTR, ttl, a.text)
	case typeCNAME:
		w.single(questionOffset, typeCNAME, ttl, a.alias)
	}
}

// presented is a name in wire form as zone files write it.
func presented(wire []byte) string {
	text, _, err := dns.UnpackDomainName(wire, 0)
	if err != nil {
		return "."
	}
	return text
}

// inOrder lists where the entries that are kept are, in the canonical order of their keys.
func (ix *index) inOrder(keep func(entry) bool) []position {
	var out []position
	for _, b := range ix.root {
		if b == nil {
			continue
		}
		for _, p := range b {
			if p == 0 {
				continue
			}
			eachSlot(ix.leaf(p), func(s slot) {
				if keep(ix.entry(s.position())) {
					out = append(out, s.position())
				}
			})
		}
	}
	slices.SortFunc(out, func(a, b position) int { return canonicalOrder(ix.entry(a).key(), ix.entry(b).key()) })
	return out
}

// canonicalOrder compares names in wire form, lower-cased and without a root byte, label
// by label from the right (RFC 4034 section 6.1).
func canonicalOrder[T string | []byte](a, b T) int {
	var ofA, ofB [names.MaxName / 2]uint8
	n, m := labelStarts(a, &ofA), labelStarts(b, &ofB)
	for n > 0 && m > 0 {
		n, m = n-1, m-1
		x, y := int(ofA[n]), int(ofB[m])
		one, other := a[x+1:x+1+int(a[x])], b[y+1:y+1+int(b[y])]
		if c := bytes.Compare([]byte(one), []byte(other)); c != 0 {
			return c
		}
	}
	return n - m
}

func labelStarts[T string | []byte](name T, starts *[names.MaxName / 2]uint8) int {
	n := 0
	for i := 0; i < len(name); i += 1 + int(name[i]) {
		starts[n] = uint8(i)
		n++
	}
	return n
}
