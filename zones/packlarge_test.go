package zones

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/meshdns/meshdns/resolver"
	"github.com/meshdns/meshdns/sources"
)

// describe says what an entry answers, in an order that does not depend on how it was
// packed.
func describe(e entry) string {
	lines := []string{
		fmt.Sprintf("flags %x ttl %d text %x", e[hFlags], e.u32(hTTL), e.text()),
		"a " + sorted(e.addresses(typeA), 4), "aaaa " + sorted(e.addresses(typeAAAA), 16),
	}
	for i := range e.parts() {
		lines = append(lines, describePart(e.part(i)))
	}
	return strings.Join(lines, "\n")
}

func describePart(p part) string {
	lines := []string{
		fmt.Sprintf("part %d %x site %q alias %q", p.cluster(), p[pFlags], p.site(), p.alias()),
		"a " + sorted(p.addresses(typeA), 4), "aaaa " + sorted(p.addresses(typeAAAA), 16),
		"bare " + describeTargets(p, list(p, pBare, targetSize)),
	}
	at := binary.LittleEndian.Uint32(p[pPorts:])
	for n := binary.LittleEndian.Uint32(p[pPorts+4:]); n > 0; n-- {
		end := portHeader + int(p[at+1])
		lines = append(lines, fmt.Sprintf("port %q/%d %s", p[at+portHeader:at+uint32(end)], p[at],
			describeTargets(p, list(p, int(at)+2, targetSize))))
		at += uint32(end)
	}
	return strings.Join(lines, "\n")
}

// describeTargets lists number, host and the host's addresses, and finds each host by
// its name as a query would.
func describeTargets(p part, targets []byte) string {
	var out []string
	for ; len(targets) > 0; targets = targets[targetSize:] {
		offset := binary.LittleEndian.Uint32(targets[2:])
		line := fmt.Sprint(binary.LittleEndian.Uint16(targets))
		if offset > 0 {
			h := p.hostAt(offset)
			line += fmt.Sprintf(" %q %s %s", h.label(), sorted(h.addresses(typeA), 4), sorted(h.addresses(typeAAAA), 16))
		}
		out = append(out, line)
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

func sorted(list []byte, width int) string {
	var out []string
	for ; len(list) > 0; list = list[width:] {
		out = append(out, fmt.Sprintf("%x", list[:width]))
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// TestLargeServicesAnswerTheSame: packed from slices or endpoint by endpoint, a service
// answers the same, whatever order its changes come in.
func TestLargeServicesAnswerTheSame(t *testing.T) {
	large := 0
	for seed := range uint64(400) {
		a, b := newModel(t, seed, resolver.MatchName), newModel(t, seed, resolver.MatchName)
		b.publisher.largeFrom = 1
		b.resolver.SetSettings(modelSettings(resolver.MatchName))
		b.flush()
		for range 20 {
			u := a.event()
			a.resolver.Update(u)
			b.resolver.Update(u)
			a.flush()
			b.flush()
		}
		require.Equal(t, described(a), described(b), "seed %d", seed)
		large += len(b.publisher.packer.large.kept)
	}
	require.Greater(t, large, 100, "services that were packed from slices")
}

func described(m *model) map[string]string {
	out := map[string]string{}
	m.publisher.View().index.each(func(e entry) { out[string(e[hClass])+string(e.key())] = describe(e) })
	return out
}

// TestEveryHostIsFound: each host of a large service is found by its label, and no other.
func TestEveryHostIsFound(t *testing.T) {
	m := newModel(t, 1, resolver.MatchName)
	service := &sources.ServiceFields{Type: sources.Headless}
	for i := range 30 {
		slice := &sources.SliceFields{Name: fmt.Sprintf("s-%02d", i), Ports: []sources.Port{{Name: "http", Number: 80}}}
		for j := range 100 {
			slice.Endpoints = append(slice.Endpoints, sources.Endpoint{Address: m.numbered(i*100 + j), Hostname: fmt.Sprintf("web-%d", i*100+j)})
		}
		service.Slices = append(service.Slices, slice.Pack())
	}
	m.resolver.Update(sources.Update{Key: sources.Key{Source: "c1", Kind: sources.KindService, Namespace: "shop", Name: "api"}, Value: service.Pack()})
	m.flush()
	v := m.publisher.View()
	e := v.index.get(classService, []byte("\x03api\x04shop"))
	require.Len(t, m.publisher.packer.large.kept, 1)
	p := e.ownPart(0)
	for n := range 3000 {
		label := fmt.Sprintf("web-%d", n)
		h := p.hostNamed(v.index.seed, append([]byte{byte(len(label))}, label...))
		require.NotNil(t, h, label)
		a := m.numbered(n).As4()
		require.Equal(t, a[:], h.addresses(typeA), label)
	}
	require.Nil(t, p.hostNamed(v.index.seed, []byte("\x08web-3000")))
	require.Len(t, e.addresses(typeA), 4*3000)
}
