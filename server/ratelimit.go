package server

import (
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"net/netip"
	"reflect"
	"slices"
	"sync/atomic"
	"time"
)

// RateLimit bounds what goes out over UDP to one client prefix (DNS_RULES 36): a forged
// source address has others flooded with our replies. Messages over TCP and those with a
// valid cookie have a source that is not forged, and pass.
//
// A prefix has one account for all of its replies. BIND and NSD keep one for each kind of
// reply and name, so that who changes the names gets the rate many times over; that would
// be no bound. What such accounts are good for, that a flood of absent names takes no
// answers away, is done here by a reserve: replies without an answer leave half of Window
// to those with one. What is not sent costs nothing: BIND counts it too, after which a client
// that asks a tenth too much gets nothing at all.
type RateLimit struct {
	// PerSecond is how many whole replies a prefix gets in a second; 0: no limit.
	PerSecond int
	// Slip: each Slip-th of the replies above the rate is sent with TC and without records,
	// so that real clients come back over TCP; 0: none is, 1: all are. MostSlip at most.
	Slip int
	// IPv4Prefix and IPv6Prefix are how many bits of an address are one client.
	IPv4Prefix, IPv6Prefix int
	// Window is how much of the rate can come at once: a prefix that was quiet for so long
	// gets PerSecond×Window whole replies together, one at least. LongestWindow at most.
	Window time.Duration
	// Exempt are the clients without a limit: forwarders, each of which asks for many.
	Exempt []netip.Prefix
}

const (
	MostPerSecond = 1_000_000   // above, an account's clock is too coarse
	MostSlip      = 10          // more is as good as none
	LongestWindow = time.Minute // more is no limit to a flood
)

// check refuses what a limiter cannot do.
func (r RateLimit) check() error {
	switch {
	case r.PerSecond < 0 || r.PerSecond > MostPerSecond:
		return fmt.Errorf("rate limit: %d a second, want 0 to %d", r.PerSecond, MostPerSecond)
	case r.Slip < 0 || r.Slip > MostSlip:
		return fmt.Errorf("rate limit: slip %d, want 0 to %d", r.Slip, MostSlip)
	case r.Window <= 0 || r.Window > LongestWindow:
		return fmt.Errorf("rate limit: window %s, want more than 0s, at most %s", r.Window, LongestWindow)
	case r.IPv4Prefix < 1 || r.IPv4Prefix > 32 || r.IPv6Prefix < 1 || r.IPv6Prefix > 128:
		return fmt.Errorf("rate limit: prefixes of %d and %d bits", r.IPv4Prefix, r.IPv6Prefix)
	}
	return nil
}

func (r RateLimit) equal(other RateLimit) bool {
	exempt := slices.Equal(r.Exempt, other.Exempt)
	r.Exempt, other.Exempt = nil, nil
	return exempt && reflect.DeepEqual(r, other)
}

// rateLimits is the limit in force. Handlers take it at the begin of each batch.
type rateLimits struct {
	now     func() time.Time
	current atomic.Pointer[limiter] // nil: no limit
}

// SetRateLimit changes the limit of all Handlers. One that has not changed keeps its accounts.
func (s *Answers) SetRateLimit(r RateLimit) error {
	if r.PerSecond == 0 {
		s.limits.current.Store(nil)
		return nil
	}
	if err := r.check(); err != nil {
		return err
	}
	if old := s.limits.current.Load(); old == nil || !old.RateLimit.equal(r) {
		s.limits.current.Store(newLimiter(r, s.limits.now))
	}
	return nil
}

// limiter decides over replies. Its methods may be called from any goroutine.
type limiter struct {
	RateLimit
	accounts *accounts
	now      func() time.Time
	started  time.Time
	seed     maphash.Seed   // nobody can know which prefixes share a place in the table
	exempt   []netip.Prefix // sorted, none within another
}

func newLimiter(r RateLimit, now func() time.Time) *limiter {
	return &limiter{
		RateLimit: r, accounts: newAccounts(r.PerSecond, r.Window, r.Slip), now: now, started: now(),
		seed: maphash.MakeSeed(), exempt: outermost(r.Exempt),
	}
}

// clock is the time as accounts have it.
func (l *limiter) clock() ticks { return ticksOf(l.now().Sub(l.started)) }

// decide says what becomes of a reply to client.
func (l *limiter) decide(client netip.Addr, now ticks, k kind) fate {
	if contains(l.exempt, client) {
		return sent
	}
	return l.accounts.charge(l.hash(client), now, k)
}

// hash is of the client's prefix.
func (l *limiter) hash(client netip.Addr) uint64 {
	bits, family := l.IPv6Prefix, byte(6)
	if client.Is4() {
		bits, family = l.IPv4Prefix+96, 4 // As16 gives IPv4 in IPv6
	}
	key := [17]byte{16: family}
	whole := client.As16()
	binary.BigEndian.PutUint64(key[:], binary.BigEndian.Uint64(whole[:])&^(^uint64(0)>>min(bits, 64)))
	binary.BigEndian.PutUint64(key[8:], binary.BigEndian.Uint64(whole[8:])&^(^uint64(0)>>max(bits-64, 0)))
	return maphash.Bytes(l.seed, key[:])
}

// outermost sorts prefixes and leaves out those within others: two either are disjoint or
// one holds the other.
func outermost(list []netip.Prefix) (out []netip.Prefix) {
	list = slices.Clone(list)
	for i, p := range list {
		list[i] = p.Masked()
	}
	slices.SortFunc(list, netip.Prefix.Compare) // shorter ones first where they begin alike
	for _, p := range list {
		if len(out) == 0 || !out[len(out)-1].Overlaps(p) {
			out = append(out, p)
		}
	}
	return out
}

// contains says whether one of outermost's prefixes holds an address.
func contains(list []netip.Prefix, client netip.Addr) bool {
	if len(list) == 0 {
		return false
	}
	client = client.WithZone("")
	after, _ := slices.BinarySearchFunc(list, client, func(p netip.Prefix, a netip.Addr) int {
		if p.Addr().Compare(a) <= 0 {
			return -1
		}
		return 1
	})
	return after > 0 && list[after-1].Contains(client)
}
