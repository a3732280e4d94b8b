package zones

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/meshdns/meshdns/names"
	"github.com/meshdns/meshdns/registry"
	"github.com/meshdns/meshdns/resolver"
	"github.com/meshdns/meshdns/sources"
)

func exportOf(t *testing.T, v *View, zone names.Name) (text string, records []dns.RR) {
	t.Helper()
	var buf bytes.Buffer
	found, err := v.Export(&buf, zone)
	require.NoError(t, err)
	require.True(t, found)
	text = buf.String()
	parser := dns.NewZoneParser(strings.NewReader(text), ".", "")
	for rr, ok := parser.Next(); ok; rr, ok = parser.Next() {
		records = append(records, rr)
	}
	require.NoError(t, parser.Err(), text)
	return text, records
}

// asked is the same question put to the view: the records as text, and the status.
func asked(t *testing.T, v *View, name string, typ uint16) (Status, []string) {
	t.Helper()
	var q Query
	var a Answer
	q.SetName([]byte(names.MustParse(name).Wire()))
	q.Type, q.NoWait = typ, true
	v.Lookup(&q, &a)
	var out []string
	if a.Status == Found {
		w := Writer{Msg: append(make([]byte, questionOffset), q.Name...), Limit: 1 << 16}
		w.Rand = rand.NewPCG(1, 2)
		start := len(w.Msg)
		n := w.WriteAnswer(&a, v.Clock())
		for at, i := start, 0; i < int(n.Count); i++ {
			rr, next, err := dns.UnpackRR(w.Msg, at)
			require.NoError(t, err)
			at = next
			out = append(out, rr.String())
		}
	}
	slices.Sort(out)
	return a.Status, out
}

// reversed is a name as text whose order is the canonical one for lower-case host labels.
func reversed(name string) string {
	labels := dns.SplitDomainName(name)
	slices.Reverse(labels)
	return strings.Join(labels, "\x00")
}

// TestExport: whatever events came, a zone file has the records that questions get, each
// once, in canonical order, and every name that the catalogue and its explanations know.
func TestExport(t *testing.T) {
	for seed := range uint64(200) {
		m := newModel(t, seed, resolver.MatchName)
		for range 5 + m.rng.IntN(20) {
			m.resolver.Update(m.event())
		}
		m.flush()
		v := m.publisher.View()
		for _, z := range v.Zones() {
			checkExport(t, v, z.Zone)
		}
	}
}

func checkExport(t *testing.T, v *View, z *Zone) {
	text, records := exportOf(t, v, z.Name)
	again, _ := exportOf(t, v, z.Name)
	require.Equal(t, text, again, "the same each time")
	require.IsType(t, &dns.SOA{}, records[0], text)

	sets := map[string][]string{}
	var owners []string
	for _, rr := range records {
		h := rr.Header()
		key := h.Name + " " + dns.Type(h.Rrtype).String()
		sets[key] = append(sets[key], rr.String())
		owners = append(owners, reversed(h.Name))
	}
	require.True(t, slices.IsSorted(owners), text)
	for key, got := range sets {
		slices.Sort(got)
		name, typ, _ := strings.Cut(key, " ")
		_, want := asked(t, v, name, dns.StringToType[typ])
		require.Equal(t, want, got, "%s\n%s", key, text)
	}
	for name := range missingIn(text) {
		status, _ := asked(t, v, name, typeA)
		require.Contains(t, []Status{NotReady, Unavailable}, status, "%s\n%s", name, text)
	}
	checkWhole(t, v, z, sets, text)
}

// missingIn are the names that a zone file says are missing.
func missingIn(text string) map[string]bool {
	out := map[string]bool{}
	for line := range strings.Lines(text) {
		if name, _, ok := strings.Cut(line, " is missing: "); ok {
			out[strings.TrimPrefix(name, "; ")] = true
		}
	}
	return out
}

// checkWhole looks for the names that the catalogue and explanations know.
func checkWhole(t *testing.T, v *View, z *Zone, sets map[string][]string, text string) {
	for _, s := range v.Services(ListQuery{Limit: 1000, Zone: z.Name.Text()}).Items {
		owners := []string{s.Name}
		for _, e := range v.Explain(names.MustParse(s.Name), typeA).Endpoints {
			host := e.Hostname + "." + s.Name
			if z.Kind != Cluster {
				host = e.Hostname + "." + e.Cluster + "." + s.Name
			}
			owners = append(owners, host)
		}
		for _, port := range []string{"_http._tcp", "_dns._tcp", "_http._udp", "_dns._udp", "_http._sctp", "_identity"} {
			owners = append(owners, port+"."+s.Name)
		}
		for _, owner := range owners {
			if _, err := names.Parse(owner); err != nil {
				continue
			}
			checkOwner(t, v, owner, sets, text)
		}
	}
}

func checkOwner(t *testing.T, v *View, owner string, sets map[string][]string, text string) {
	if status, alias := asked(t, v, owner, typeCNAME); status == NotReady || status == Unavailable {
		require.True(t, unknownIn(text, owner), "%s\n%s", owner, text)
		return
	} else if status == Found {
		require.Equal(t, alias, sets[owner+". CNAME"], text)
		return
	}
	for _, typ := range innerTypes {
		_, want := asked(t, v, owner, typ)
		require.Equal(t, want, sets[owner+". "+dns.Type(typ).String()], "%s %d\n%s", owner, typ, text)
	}
}

// unknownIn says whether a zone file says that a name, or what it is below, is unknown.
func unknownIn(text, name string) bool {
	for rest := name; rest != ""; _, rest, _ = strings.Cut(rest, ".") {
		if strings.Contains(text, "; "+rest+". is missing") || strings.Contains(text, "; "+rest+". may have more") {
			return true
		}
	}
	return strings.Contains(text, "too old") || strings.Contains(text, "never been listed")
}

func TestExportOrder(t *testing.T) {
	m := newModel(t, 1, resolver.MatchName)
	for i, name := range []string{"b.mesh", "a.b.mesh", "zz.mesh", "dns-x.mesh", "a-b.mesh", "x.a.mesh", "c.y.mesh"} {
		m.resolver.Update(sources.Update{
			Key: sources.Key{Source: "registryDir", Kind: sources.KindDocument, Name: name},
			Value: &registry.MeshService{
				Name: names.MustParse(name), Identity: "spiffe://x/\"y\"; z" + strings.Repeat("-", 250),
				Ports:    []sources.Port{{Name: "http", Number: 80}},
				Backends: []registry.Backend{{Type: registry.Static, Addresses: []netip.Addr{netip.AddrFrom4([4]byte{192, 0, 2, byte(9 - i)})}}},
			},
		})
	}
	m.resolver.Update(sources.Update{
		Key: sources.Key{Source: "registryDir", Kind: sources.KindDocument, Name: "m.mesh"},
		Value: &registry.MeshService{
			Name: names.MustParse("m.mesh"), Backends: []registry.Backend{{Type: registry.Azure, Locator: "/x"}},
		},
	})
	m.flush()
	text, records := exportOf(t, m.publisher.View(), names.MustParse("mesh"))
	var owners []string
	for _, rr := range records {
		owners = append(owners, rr.Header().Name)
	}
	var order []string
	for _, owner := range slices.Compact(slices.Clone(owners)) {
		order = append(order, strings.TrimSuffix(owner, "mesh."))
	}
	assert.Equal(t, []string{
		"", "x.a.", "_identity.x.a.", "_http._tcp.x.a.", "192-0-2-4.c1.x.a.",
		"a-b.", "_identity.a-b.", "_http._tcp.a-b.", "192-0-2-5.c1.a-b.",
	}, order[:9], text)
	assert.True(t, slices.IsSortedFunc(owners, func(a, b string) int { return strings.Compare(reversed(a), reversed(b)) }), text)
	assert.Contains(t, text, "\n; m.mesh. is missing", text)
	assert.Contains(t, text, `"spiffe://x/\"y\"; z---`)
}

// TestExportNoZone: names inside of a zone, above it and elsewhere are no zones.
func TestExportNoZone(t *testing.T) {
	m := newModel(t, 1, resolver.MatchName)
	m.flush()
	for _, name := range []string{"foo.mesh", "global", "example.com", "."} {
		var buf bytes.Buffer
		found, err := m.publisher.View().Export(&buf, names.MustParse(name))
		assert.NoError(t, err)
		assert.False(t, found, name)
		assert.Empty(t, buf.String())
	}
}

// full is a disk without room.
type full struct{ left int }

func (f *full) Write(p []byte) (int, error) {
	if f.left -= len(p); f.left < 0 {
		return 0, fmt.Errorf("no room")
	}
	return len(p), nil
}

// TestExportStops: a reader that is gone ends the work.
func TestExportStops(t *testing.T) {
	m := newModel(t, 1, resolver.MatchName)
	for i := range 4000 {
		name := fmt.Sprintf("n%d.mesh", i)
		m.resolver.Update(sources.Update{
			Key: sources.Key{Source: "registryDir", Kind: sources.KindDocument, Name: name},
			Value: &registry.MeshService{
				Name:     names.MustParse(name),
				Backends: []registry.Backend{{Type: registry.Static, Addresses: []netip.Addr{m.numbered(i)}}},
			},
		})
	}
	m.flush()
	w := &full{left: 2 * exportBuffer}
	found, err := m.publisher.View().Export(w, names.MustParse("mesh"))
	assert.True(t, found)
	assert.ErrorContains(t, err, "no room")
}
