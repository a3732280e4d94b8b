package zones

import (
	"github.com/meshdns/meshdns/names"
	"github.com/meshdns/meshdns/resolver"
)

// registered packs one registered name again.
func (p *Publisher) registered(v *View, name names.Name) {
	zone := v.zones.mesh
	if zone == nil {
		return
	}
	relative, ok := name.Relative(zone.Name)
	if !ok || relative == "" {
		return
	}
	key := []byte(relative)
	m := v.snapshot.Mesh(name)
	var e entry
	switch {
	case m != nil:
		e = p.packMesh(v, m, key)
	case p.inner[relative] > 0:
		e = p.packEmpty(classMesh, key)
	}
	old, changed := p.replace(v, classMesh, key, e)
	if !changed {
		return
	}
	if !sameButExpiry(old, e) { // a refreshed DNS backend is no news for secondaries
		p.serials.changed(zone)
	}
	p.countInner(v, relative, old, e)
}

func (p *Publisher) packMesh(v *View, m *resolver.Mesh, key []byte) entry {
	pk, sel := p.packer, &p.sel
	v.snapshot.Registered(m, sel)
	pk.begin(classMesh, key, len(key)+len(v.zones.mesh.wire))
	pk.setTTL(sel.TTL, sel.Expires)
	pk.text = append(pk.text, m.Doc.Identity...)
	pk.shares = sharesOf(m, sel)
	p.addAggregate(v, sel)
	if sel.Wait {
		pk.flags |= fWait
	}
	if sel.Stale {
		pk.flags |= fStale
	}
	return pk.finish()
}

func (p *Publisher) packEmpty(class byte, key []byte) entry {
	p.packer.begin(class, key, 0)
	p.packer.flags = fExists | fEmpty
	return p.packer.finish()
}

// countInner keeps the empty non-terminals above a registered name of several labels.
func (p *Publisher) countInner(v *View, relative string, old, now entry) {
	had := old != nil && !old.flag(fEmpty)
	has := now != nil && !now.flag(fEmpty)
	if had == has {
		return
	}
	by := -1
	if has {
		by = 1
	}
	for rest := relative[1+relative[0]:]; rest != ""; rest = rest[1+rest[0]:] {
		p.inner[rest] += by
		if p.inner[rest] == 0 {
			delete(p.inner, rest)
		}
		p.refreshEmpty(v, rest)
	}
}

// refreshEmpty writes or removes an empty non-terminal of the mesh zone.
func (p *Publisher) refreshEmpty(v *View, relative string) {
	key := []byte(relative)
	if name, err := v.zones.mesh.Name.Join(relative); err != nil || v.snapshot.Mesh(name) != nil {
		return // registered itself
	}
	var e entry
	if p.inner[relative] > 0 {
		e = p.packEmpty(classMesh, key)
	}
	p.replace(v, classMesh, key, e)
}

// target packs what upstreams said of an alias target.
func (p *Publisher) target(v *View, backend string) {
	name, err := names.Parse(backend)
	if err != nil {
		return // a locator that is no host: no alias can name it
	}
	wire := name.Wire()
	key := []byte(wire[:len(wire)-1])
	var e entry
	if v.snapshot.Target(backend, &p.sel) {
		e = p.packTarget(v, key)
	}
	p.replace(v, classAlias, key, e)
}

func (p *Publisher) packTarget(v *View, key []byte) entry {
	pk, sel := p.packer, &p.sel
	pk.begin(classAlias, key, 0)
	pk.setTTL(sel.TTL, sel.Expires)
	for _, alias := range sel.Chain {
		pk.text = append(pk.text, alias.Wire()...)
	}
	if sel.Stale {
		pk.flags |= fStale
	}
	if sel.NoName {
		pk.flags |= fNoName
	}
	p.addAggregate(v, sel)
	return pk.finish()
}
