package server

import (
	"math/rand/v2"
	"net/netip"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// testLimit is a limit with the usual prefixes.
func testLimit(perSecond, slip int, window time.Duration, exempt ...string) RateLimit {
	r := RateLimit{PerSecond: perSecond, Slip: slip, IPv4Prefix: 24, IPv6Prefix: 56, Window: window}
	for _, p := range exempt {
		r.Exempt = append(r.Exempt, netip.MustParsePrefix(p))
	}
	return r
}

// fates counts what becomes of replies.
type fates [dropped + 1]int

// limiterAt is a limiter whose clock a test sets.
func limiterAt(r RateLimit) (*limiter, *time.Time) {
	now := time.Unix(1_000_000, 0)
	return newLimiter(r, func() time.Time { return now }), &now
}

func decideMany(l *limiter, n int, client string, k kind) (f fates) {
	for range n {
		f[l.decide(netip.MustParseAddr(client), l.clock(), k)]++
	}
	return f
}

func TestSlip(t *testing.T) {
	for _, c := range []struct {
		slip int
		want fates
	}{
		{0, fates{10, 0, 100}},
		{1, fates{10, 100, 0}},
		{2, fates{10, 50, 50}},
		{3, fates{10, 33, 67}},
		{10, fates{10, 10, 90}},
	} {
		l, _ := limiterAt(testLimit(10, c.slip, time.Second))
		assert.Equal(t, c.want, decideMany(l, 110, "192.0.2.1", answering), "slip %d", c.slip)
	}
}

func TestPrefixesAreOneClient(t *testing.T) {
	l, _ := limiterAt(testLimit(10, 0, time.Second, "192.0.2.128/32", "10.0.0.0/8", "10.9.0.0/16", "2001:db8:1::/48"))
	for _, c := range []struct {
		client string
		sent   int
	}{
		{"192.0.2.1", 10},
		{"192.0.2.255", 0}, // the same /24
		{"192.0.3.1", 10},
		{"192.0.2.128", 20}, // exempt
		{"192.0.2.127", 0},  // its neighbour is not, and not on its account
		{"10.9.1.1", 20},    // exempt twice
		{"10.255.255.255", 20},
		{"11.0.0.0", 10},
		{"9.255.255.255", 10},
		{"2001:db8:2:100::1", 10},
		{"2001:db8:2:1ff::2", 0}, // the same /56
		{"2001:db8:2:200::1", 10},
		{"2001:db8:1:2::3", 20},
		{"::c000:301", 10}, // 192.0.3.1's bits, as IPv6
		{"fe80::1%eth0", 10},
		{"fe80::2%eth1", 0},
	} {
		assert.Equal(t, c.sent, decideMany(l, 20, c.client, answering)[sent], c.client)
	}
}

// A flood of absent names leaves half of the window to answers, and the rate is the bound of
// both together.
func TestAnswersHaveAReserve(t *testing.T) {
	l, now := limiterAt(testLimit(10, 0, time.Second))
	assert.Equal(t, 5, decideMany(l, 50, "192.0.2.1", empty)[sent])
	assert.Equal(t, 5, decideMany(l, 50, "192.0.2.1", answering)[sent])
	assert.Equal(t, 0, decideMany(l, 50, "192.0.2.1", empty)[sent])
	*now = now.Add(350 * time.Millisecond)
	assert.Equal(t, 0, decideMany(l, 50, "192.0.2.1", empty)[sent], "the reserve is filled first")
	assert.Equal(t, 3, decideMany(l, 50, "192.0.2.1", answering)[sent])
	*now = now.Add(time.Hour)
	assert.Equal(t, 5, decideMany(l, 50, "192.0.2.1", empty)[sent], "no more than the window is saved up")
}

func TestSmallRates(t *testing.T) {
	for _, window := range []time.Duration{time.Nanosecond, time.Second} {
		l, now := limiterAt(testLimit(1, 0, window))
		assert.Equal(t, 1, decideMany(l, 5, "192.0.2.1", empty)[sent], "at least one at once")
		*now = now.Add(time.Second)
		assert.Equal(t, 1, decideMany(l, 5, "192.0.2.1", answering)[sent])
	}
}

// The time of a word starts anew every 18 hours: an account is never in debt for long then.
func TestAccountsOutliveTheirClock(t *testing.T) {
	l, now := limiterAt(testLimit(10, 0, time.Second))
	for range 2000 {
		*now = now.Add(41 * time.Minute) // not a part of the period
		require.Equal(t, 10, decideMany(l, 20, "192.0.2.1", answering)[sent], now.String())
	}
	*now = now.Add(1<<16*time.Second - time.Millisecond)
	decideMany(l, 20, "192.0.2.1", answering)
	*now = now.Add(1100 * time.Millisecond)
	assert.Equal(t, 10, decideMany(l, 20, "192.0.2.1", answering)[sent], "at the worst moment, for the length of the window")
}

// The bound of DNS_RULES 36, for any rate, slip and window, any course of queries and of time,
// and while others fill the table: whole replies to a prefix are at most the rate times the time
// that has passed, and the window; those cut at most one in slip of the others; and what comes
// less often than the rate allows is answered whole.
func TestRateBound(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 36))
		perSecond, slip := 1+random.IntN(1<<random.IntN(15)), random.IntN(MostSlip+1)
		window := time.Duration(1+random.IntN(5000)) * time.Millisecond
		l, now := limiterAt(testLimit(perSecond, slip, window))
		began, whole, cut, over := *now, 0, 0, 0
		for range 3000 {
			*now = now.Add(time.Duration(random.ExpFloat64() * float64(time.Second) / float64(perSecond) * float64(random.IntN(3))))
			k := kind(random.IntN(2))
			switch l.decide(netip.MustParseAddr("198.51.100.7"), l.clock(), k) {
			case sent:
				whole++
			case truncated:
				cut++
				over++
			default:
				over++
			}
			for range random.IntN(40) { // others
				l.decide(netip.AddrFrom4([4]byte{byte(random.IntN(200)), byte(random.Uint32()), byte(random.Uint32()), 1}), l.clock(), answering)
			}
			atMost := max(1, float64(perSecond)*window.Seconds()) + float64(perSecond)*now.Sub(began).Seconds()
			require.LessOrEqual(t, float64(whole), atMost+1e-6, "seed %d", seed)
			require.LessOrEqual(t, cut*slip, over, "seed %d", seed)
		}
		require.Positive(t, whole)
	}
}

// Who stays below the rate never notices the limit.
func TestBelowTheRateAllIsSent(t *testing.T) {
	l, now := limiterAt(testLimit(100, 2, time.Second))
	for range 20_000 {
		*now = now.Add(10*time.Millisecond + time.Microsecond)
		require.Equal(t, sent, l.decide(netip.MustParseAddr("2001:db8::1"), l.clock(), empty))
	}
}

// A table that is full of prefixes keeps the bound: with one reply at once, all of them together
// get one for each account, and one that had its reply gets no other.
func TestFullTable(t *testing.T) {
	l, now := limiterAt(testLimit(1, 0, time.Second))
	require.Equal(t, 1, decideMany(l, 1000, "203.0.113.1", answering)[sent])
	others := 0
	for i := range 1 << 20 { // two prefixes for each account
		client := netip.AddrFrom4([4]byte{10 + byte(i>>16), byte(i >> 8), byte(i), 1})
		if l.decide(client, l.clock(), answering) == sent {
			others++
		}
	}
	assert.Equal(t, 0, decideMany(l, 1000, "203.0.113.1", answering)[sent], "no time has passed")
	assert.LessOrEqual(t, others, len(l.accounts.sets)*ways)
	assert.Greater(t, others, len(l.accounts.sets)*ways*9/10, "places are used")
	*now = now.Add(2 * time.Second)
	assert.Equal(t, 1, decideMany(l, 1000, "203.0.113.1", answering)[sent])
}

// Workers that answer one prefix at the same moment share its rate.
func TestWorkersShareAccounts(t *testing.T) {
	l, _ := limiterAt(testLimit(1000, 2, time.Second))
	var all [8]fates
	var busy sync.WaitGroup
	for i := range all {
		busy.Go(func() { all[i] = decideMany(l, 10_000, "192.0.2.1", answering) })
	}
	busy.Wait()
	var sum fates
	for _, f := range all {
		for i, n := range f {
			sum[i] += n
		}
	}
	assert.Equal(t, fates{1000, 39_500, 39_500}, sum)
}

// DNS_RULES 37: a million prefixes leave nothing behind, and no reply allocates.
func TestAccountsDoNotGrow(t *testing.T) {
	l, _ := limiterAt(testLimit(10, 2, time.Second, "10.0.0.0/8"))
	before := heapInUse()
	for i := range 500_000 {
		l.decide(netip.AddrFrom4([4]byte{20 + byte(i>>16), byte(i >> 8), byte(i), 1}), l.clock(), empty)
		l.decide(netip.AddrFrom16([16]byte{0x20, 1, byte(i >> 16), byte(i >> 8), byte(i)}), l.clock(), answering)
	}
	assert.Less(t, heapInUse()-before, int64(64<<10))
	client := netip.MustParseAddr("2001:db8::1")
	assert.Zero(t, testing.AllocsPerRun(1000, func() { l.decide(client, l.clock(), answering) }))
	runtime.KeepAlive(l)
}

func heapInUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestRateLimitIsChecked(t *testing.T) {
	for name, change := range map[string]func(*RateLimit){
		"rate":          func(r *RateLimit) { r.PerSecond = MostPerSecond + 1 },
		"negative rate": func(r *RateLimit) { r.PerSecond = -1 },
		"slip":          func(r *RateLimit) { r.Slip = MostSlip + 1 },
		"window":        func(r *RateLimit) { r.Window = 0 },
		"long window":   func(r *RateLimit) { r.Window = LongestWindow + 1 },
		"IPv4":          func(r *RateLimit) { r.IPv4Prefix = 33 },
		"IPv6":          func(r *RateLimit) { r.IPv6Prefix = 0 },
	} {
		limit := testLimit(10, 2, time.Second)
		change(&limit)
		answers := NewAnswers(AnswersConfig{})
		assert.ErrorContains(t, answers.SetRateLimit(limit), "rate limit: ", name)
		assert.Nil(t, answers.limits.current.Load(), name)
	}
}

// A limit that is set again as it was keeps its accounts: other changes of the configuration
// give no flood a new start.
func TestUnchangedLimitKeepsItsAccounts(t *testing.T) {
	answers := NewAnswers(AnswersConfig{})
	require.NoError(t, answers.SetRateLimit(testLimit(10, 2, time.Second, "10.0.0.0/8")))
	first := answers.limits.current.Load()
	require.NoError(t, answers.SetRateLimit(testLimit(10, 2, time.Second, "10.0.0.0/8")))
	assert.Same(t, first, answers.limits.current.Load())
	require.NoError(t, answers.SetRateLimit(testLimit(10, 2, time.Second, "10.0.0.0/9")))
	assert.NotSame(t, first, answers.limits.current.Load())
	require.NoError(t, answers.SetRateLimit(RateLimit{}))
	assert.Nil(t, answers.limits.current.Load())
}

func BenchmarkRateLimit(b *testing.B) {
	r := testLimit(1000, 2, time.Second, "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")
	clients := make([]netip.Addr, 1<<16)
	for i := range clients {
		clients[i] = netip.AddrFrom4([4]byte{20, byte(i >> 8), byte(i), 1})
	}
	for name, mask := range map[string]int{"one client": 0, "65536 prefixes": len(clients) - 1} {
		b.Run(name, func(b *testing.B) {
			l := newLimiter(r, time.Now)
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				l.decide(clients[i&mask], ticks(i)*16, answering)
				i++
			}
		})
	}
}
