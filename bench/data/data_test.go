package data

import (
	"bytes"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"

	"github.com/meshdns/meshdns/sources"
	"github.com/meshdns/meshdns/sources/kubernetes"
)

func small() Fleet { return Fleet{Services: 250, Clusters: 3, PerSlice: 2, TTL: 300} }

// TestZoneFile reads the zone with a parser of its own and compares it with the addresses.
func TestZoneFile(t *testing.T) {
	f := small()
	var text bytes.Buffer
	require.NoError(t, f.ZoneFile(&text))
	got := map[string][]netip.Addr{}
	soas := 0
	parser := dns.NewZoneParser(&text, "", "zone")
	for rr, ok := parser.Next(); ok; rr, ok = parser.Next() {
		require.Equal(t, uint32(f.TTL), rr.Header().Ttl, rr.String())
		switch rr := rr.(type) {
		case *dns.A:
			address, ok := netip.AddrFromSlice(rr.A.To4())
			require.True(t, ok)
			got[rr.Hdr.Name] = append(got[rr.Hdr.Name], address)
		case *dns.SOA:
			soas++
		}
	}
	require.NoError(t, parser.Err())
	require.Equal(t, 1, soas)
	require.Len(t, got, f.Services+1, "all services and ns")
	for i := range f.Services {
		require.Equal(t, f.Addresses(i), got[f.Host(i)+"."])
	}
}

func TestAddressesDiffer(t *testing.T) {
	f := Default(166_667)
	require.Equal(t, 1_000_002, f.Endpoints())
	seen := map[netip.Addr]bool{}
	for i := range f.Services {
		for _, address := range f.Addresses(i) {
			require.False(t, seen[address], "%s", address)
			seen[address] = true
		}
	}
	require.NotEqual(t, f.Address(0, 7, 1, 0), f.Address(0, 7, 1, 1))
}

// TestManifests has them read by the source that serves them, and compares what that
// would push with Update.
func TestManifests(t *testing.T) {
	f := small()
	dir := t.TempDir()
	require.NoError(t, f.Manifests(dir))
	for c := range f.Clusters {
		folder := filepath.Join(dir, f.Cluster(c))
		files, err := os.ReadDir(folder)
		require.NoError(t, err)
		require.Len(t, files, f.Namespaces())
		problems, err := kubernetes.CheckManifests(folder)
		require.NoError(t, err)
		require.Empty(t, problems)
	}
	text, err := os.ReadFile(filepath.Join(dir, "c3", "team-2.json"))
	require.NoError(t, err)
	for e := range f.PerSlice {
		require.Contains(t, string(text), `"addresses":["`+f.Address(2, 249, e, 0).String()+`"]`)
	}
	require.Equal(t, 50, strings.Count(string(text), `"kind":"Service"`), "the last namespace is half full")
}

func TestUpdate(t *testing.T) {
	f := small()
	u := f.Update(1, 120, 3)
	require.Equal(t, sources.Key{Source: "c2", Kind: sources.KindService, Namespace: "team-1", Name: "service-120"}, u.Key)
	endpoints := u.Value.(sources.Service).Fields().Slices[0].Fields().Endpoints
	require.Equal(t, f.Address(1, 120, 0, 3), endpoints[0].Address)
	require.Equal(t, "service-120-7c9f8d6b5-00001", endpoints[1].Hostname)
}

// TestPacked puts question and records into a message that another library can read.
func TestPacked(t *testing.T) {
	f := small()
	header := []byte{0, 1, 0x84, 0, 0, 1, 0, 6, 0, 0, 0, 0}
	message := slices.Concat(header, f.Question(249), []byte{0, 1, 0, 1}, f.Packed(249))
	var m dns.Msg
	require.NoError(t, m.Unpack(message))
	require.Equal(t, f.Host(249)+".", m.Question[0].Name)
	require.Len(t, m.Answer, 6)
	for n, address := range f.Addresses(249) {
		require.Equal(t, address.String(), m.Answer[n].(*dns.A).A.String())
		require.Equal(t, f.Host(249)+".", m.Answer[n].Header().Name)
		require.Equal(t, uint32(300), m.Answer[n].Header().Ttl)
	}
}

func TestQueries(t *testing.T) {
	f := small()
	var first, second bytes.Buffer
	require.NoError(t, f.Queries(&first))
	require.NoError(t, f.Queries(&second))
	require.Equal(t, first.String(), second.String(), "the same in each run")
	lines := strings.Split(strings.TrimSpace(first.String()), "\n")
	require.Len(t, lines, f.Services)
	sorted := slices.Compact(slices.Sorted(slices.Values(lines)))
	require.Len(t, sorted, f.Services, "each name once")
	require.Contains(t, lines, "service-249.team-2.svc.cluster.global A")
}

func TestWriteFileSaysWhere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "absent", "zone")
	require.ErrorContains(t, WriteFile(path, func(io.Writer) error { return nil }), path)
}
