package server

import (
	"sync/atomic"
	"time"
)

// fate is what becomes of a reply.
type fate uint8

const (
	sent      fate = iota
	truncated      // sent with TC and without records
	dropped
)

// kind is what a reply is, as far as the rate is concerned.
type kind uint8

const (
	answering kind = iota // it has records in ANSWER
	empty                 // it has none: NODATA, NXDOMAIN, errors
)

// accounts are those of all prefixes: a table of a fixed size that is written with one atomic
// operation for a reply, and read by nobody else. It is one for all workers rather than one for
// each, since the kernel deals the queries of a prefix out to all of them: a worker's share of
// the rate would depend on how evenly it does. Two workers meet in one word only while they
// answer the same prefix at the same moment.
//
// An account is one word: how far it is ahead of the clock (virtual scheduling, as the GCRA of
// ITU-T I.371 annex A has it), how many of its replies were held back since one was sent cut, and
// a part of the prefix's hash. A set of eight, one line of cache, holds those of one part of the
// hashes. A prefix that is not in its set takes over the account there that is least ahead, with
// what that has used: so no number of prefixes ever makes more than the rate go to one of them
// (the bound is kept in overflow, as in space-saving counters), and a flooded prefix, whose
// account is the furthest ahead, is not displaced by others.
type accounts struct {
	sets  [1 << setBits][ways]atomic.Uint64
	cost  ticks // of one reply
	limit [2]ticks
	slip  uint64
}

const (
	setBits = 16
	ways    = 8 // × 2^16 × 8 bytes: 4 MiB, 524,288 accounts

	// A word: 20 bits of hash, 4 of count, 40 of time.
	timeBits = 40
	timeMask = 1<<timeBits - 1
	slipMask = 0xf << timeBits
	tagShift = timeBits + 4
)

// ticks are times in 2^-24 s (60 ns). The time of a word starts anew every 2^16 s (18 hours): a
// time that is further ahead than an account can be is past.
type ticks uint64

const ticksPerSecond = 1 << 24

// apart is how far the clocks of two workers, each read at the begin of a batch, may differ.
const apart = 60 * ticksPerSecond

func ticksOf(d time.Duration) ticks {
	whole, rest := d/time.Second, d%time.Second
	return ticks(whole)*ticksPerSecond + ticks(rest)*ticksPerSecond/ticks(time.Second)
}

func newAccounts(perSecond int, window time.Duration, slip int) *accounts {
	a := &accounts{slip: uint64(slip)}
	a.cost = (ticksPerSecond + ticks(perSecond) - 1) / ticks(perSecond) // rounded up: never above the rate
	atOnce := max(1, ticks(float64(perSecond)*window.Seconds()))
	a.limit = [...]ticks{answering: a.cost * atOnce, empty: max(a.cost, a.cost*atOnce/2)}
	return a
}

// charge puts a reply on the account of a prefix.
func (a *accounts) charge(hash uint64, now ticks, k kind) fate {
	set := &a.sets[hash&(1<<setBits-1)]
	for {
		i, word := a.find(set, hash>>tagShift, now)
		next, f := a.next(word, now, k)
		next = next&(1<<tagShift-1) | hash>>tagShift<<tagShift
		if f == dropped && a.slip == 0 || set[i].CompareAndSwap(word, next) {
			return f
		}
	}
}

// find gives a prefix's account, or the one to take over.
func (a *accounts) find(set *[ways]atomic.Uint64, tag uint64, now ticks) (place int, word uint64) {
	least := ^ticks(0)
	for i := range set {
		w := set[i].Load()
		if w>>tagShift == tag {
			return i, w
		}
		if used := a.ahead(w, now); used < least {
			place, word, least = i, w, used
		}
	}
	return place, word
}

// ahead is how much of its window an account has used.
func (a *accounts) ahead(word uint64, now ticks) ticks {
	used := (ticks(word) - now) & timeMask
	switch most := a.limit[answering]; {
	case used <= most:
		return used
	case used <= most+apart:
		return most
	}
	return 0
}

// next is an account after one more reply, without its hash, and what becomes of the reply.
func (a *accounts) next(word uint64, now ticks, k kind) (uint64, fate) {
	used := a.ahead(word, now)
	if used+a.cost <= a.limit[k] {
		return word&slipMask | uint64(now+used+a.cost)&timeMask, sent
	}
	if a.slip == 0 {
		return word, dropped
	}
	held := word&slipMask>>timeBits + 1
	if held < a.slip {
		return word&^slipMask | held<<timeBits, dropped
	}
	return word &^ slipMask, truncated
}
