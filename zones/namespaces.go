package zones

import (
	"maps"
	"slices"
)

// scopes counts the services of a namespace that exist in the aggregate and in each
// cluster's zone.
type scopes struct {
	aggregate int
	clusters  map[uint16]int
}

// sameScopes says whether two values of a service exist in the same zones.
func sameScopes(a, b entry) bool {
	if a == nil || b == nil || a.flag(fExists) != b.flag(fExists) {
		return false
	}
	i, j := 0, 0
	for {
		pa, pb := a.nextOwn(&i), b.nextOwn(&j)
		if pa == nil || pb == nil {
			return pa == nil && pb == nil
		}
		if pa.cluster() != pb.cluster() {
			return false
		}
	}
}

// nextOwn is the next part from i on that is in its cluster's own zone, nil at the end.
func (e entry) nextOwn(i *int) part {
	for *i < e.parts() {
		p := e.part(*i)
		*i++
		if p.flag(pfOwn) {
			return p
		}
	}
	return nil
}

func (p *Publisher) countScopes(namespace string, e entry, by int) {
	if e == nil {
		return
	}
	s := p.namespaces[namespace]
	if s == nil {
		s = &scopes{clusters: map[uint16]int{}}
		p.namespaces[namespace] = s
	}
	if e.flag(fExists) {
		s.aggregate += by
	}
	for i := range e.parts() {
		if part := e.part(i); part.flag(pfOwn) {
			c := uint16(part.cluster())
			s.clusters[c] += by
			if s.clusters[c] == 0 {
				delete(s.clusters, c)
			}
		}
	}
	p.dirty[namespace] = struct{}{}
}

// writeNamespaces writes the namespaces whose counts moved; the entry changes only when
// a first service comes or a last one goes.
func (p *Publisher) writeNamespaces(v *View) {
	for namespace := range p.dirty {
		s := p.namespaces[namespace]
		p.keyBuf = append(append(p.keyBuf[:0], byte(len(namespace))), namespace...)
		var e entry
		if s.aggregate > 0 || len(s.clusters) > 0 {
			e = p.packNamespace(s, p.keyBuf)
		} else {
			delete(p.namespaces, namespace)
		}
		p.replace(v, classNamespace, p.keyBuf, e)
	}
	p.dirty = emptied(p.dirty)
}

func (p *Publisher) packNamespace(s *scopes, key []byte) entry {
	pk := p.packer
	pk.begin(classNamespace, key, 0)
	if s.aggregate > 0 {
		pk.flags = fExists
	}
	for _, c := range slices.Sorted(maps.Keys(s.clusters)) {
		pk.text = append(pk.text, byte(c), byte(c>>8))
	}
	return pk.finish()
}
