package bench

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"

	"github.com/meshdns/meshdns/zones"
)

// sizes are the numbers of services that benchmarks have, the largest first: what is
// compared with it is then measured within seconds, and not before its data are made, for
// which machines are too unsteady. A short run does without those that take minutes.
func sizes() []int {
	if testing.Short() {
		return []int{100_000, 1_000}
	}
	return []int{mostServices, 100_000, 1_000}
}

// zipfS is the exponent of the Zipf distribution: the service of rank k, from 1 on, is asked
// for with a probability in proportion to k^-1.05. Among a million services the first one
// has 9 % of the questions, the first thousand 61 % and the first hundred thousand 88 %.
const zipfS = 1.05

// manyDraws is how many services are drawn before the clock starts. Names that are drawn
// uniformly of a million services touch more memory than any cache holds before the first
// draw comes again. What is made of draws lies in their order, one behind the other, so that
// the processor reads ahead and it is the server's memory that is waited for.
const manyDraws = 1 << 20

// spread is how the services that are asked for, or that change, are drawn.
type spread string

const (
	uniform spread = "uniform"
	zipf    spread = "zipf"
)

// eachSpread runs a sub-benchmark for each one.
func eachSpread(b *testing.B, services int, run func(b *testing.B, drawn []uint32)) {
	for _, s := range []spread{uniform, zipf} {
		drawn := s.draw(services)
		b.Run("names="+string(s), func(b *testing.B) { run(b, drawn) })
	}
}

// draw is a list of services, the same in each run.
func (s spread) draw(services int) []uint32 {
	rng := rand.New(rand.NewPCG(1, 2))
	next := func() int { return rng.IntN(services) }
	if s == zipf {
		ranked := rng.Perm(services) // neighbours in rank are none in memory
		ranks := rand.NewZipf(rng, zipfS, 1, uint64(services-1))
		next = func() int { return ranked[ranks.Uint64()] }
	}
	out := make([]uint32, manyDraws)
	for i := range out {
		out[i] = uint32(next())
	}
	return out
}

// packets are questions for A of the aggregated names of services. They lie one behind the
// other, as a socket's buffers do.
func packets(services []uint32) [][]byte {
	out := make([][]byte, len(services))
	all := make([]byte, 0, len(services)*64) // "service-999999.team-9999.svc.cluster.global" has 62
	for i, n := range services {
		at := len(all)
		all = appendQuestion(all, int(n))
		out[i] = all[at:len(all):len(all)]
	}
	return out
}

// appendQuestion is a header with RD and one question (RFC 1035, section 4.1).
func appendQuestion(b []byte, service int) []byte {
	b = append(b, byte(service>>8), byte(service), 1, 0, 0, 1, 0, 0, 0, 0, 0, 0)
	for _, label := range [...]string{nameOf(service), namespaceOf(service), "svc", "cluster", "global"} {
		b = append(append(b, byte(len(label))), label...)
	}
	b = append(b, 0)
	b = binary.BigEndian.AppendUint16(b, dns.TypeA)
	return binary.BigEndian.AppendUint16(b, dns.ClassINET)
}

// asked is what packets ask for, as the server's own reading of them would have it. Names
// stay in the packets, and labels lie one behind the other.
func asked(packets [][]byte) []zones.Query {
	const perName = 5
	out := make([]zones.Query, len(packets))
	labels := make([]uint8, 0, len(packets)*perName)
	for i, p := range packets {
		q := &out[i]
		q.Type, q.Name = dns.TypeA, p[12:len(p)-4]
		at := len(labels)
		for n := 0; q.Name[n] != 0; n += 1 + int(q.Name[n]) {
			labels = append(labels, uint8(n))
		}
		q.Labels = labels[at:len(labels):len(labels)]
	}
	return out
}

// TestSpread counts what is said of the spreads.
func TestSpread(t *testing.T) {
	for _, test := range []struct {
		spread          spread
		first, thousand float64 // the share of the most frequent ones
	}{
		{uniform, 0, 0.006},
		{zipf, 0.095, 0.61},
	} {
		times := make([]int, mostServices)
		for _, n := range test.spread.draw(mostServices) {
			times[n]++
		}
		slices.SortFunc(times, func(a, b int) int { return b - a })
		share := func(n int) (sum float64) {
			for _, m := range times[:n] {
				sum += float64(m) / manyDraws
			}
			return sum
		}
		require.InDelta(t, test.first, share(1), 0.01, test.spread)
		require.InDelta(t, test.thousand, share(1000), 0.02, test.spread)
	}
}

// TestPackets has packets read by another library, and what they ask for compared with the
// server's own reading.
func TestPackets(t *testing.T) {
	all := packets(uniform.draw(mostServices)[:100])
	queries := asked(all)
	for i, n := range uniform.draw(mostServices)[:100] {
		var m dns.Msg
		require.NoError(t, m.Unpack(all[i]))
		name := fmt.Sprintf("%s.%s.svc.cluster.global.", nameOf(int(n)), namespaceOf(int(n)))
		require.Equal(t, []dns.Question{{Name: name, Qtype: dns.TypeA, Qclass: dns.ClassINET}}, m.Question)
		var q zones.Query
		q.SetName(all[i][12 : len(all[i])-4])
		q.Type = dns.TypeA
		require.Equal(t, q, queries[i])
	}
}
