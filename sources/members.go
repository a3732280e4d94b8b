package sources

import (
	"time"

	"github.com/meshdns/meshdns/names"
)

// Outcome says how the last whole attempt to resolve a locator ended.
type Outcome uint8

const (
	// Failed: the backend could not be asked; Slices hold the last good members, if any.
	Failed Outcome = iota
	// Found: the backend answered; Slices may be empty (a set scaled to zero, NODATA).
	Found
	// NoName: the backend said that the locator does not exist (DNS NXDOMAIN).
	NoName
)

// Members is what the locator of a DNS, cloud or Consul backend stands for.
type Members struct {
	Outcome Outcome
	Slices  []Slice
	// Last says how the last attempt that was answered ended: what is known while the
	// backend fails. Failed: nothing is known but Slices. Without Slices, Found says that
	// the locator is known to be empty, NoName that it is known not to exist.
	Last Outcome
	// EverAnswered says whether the backend has answered for this locator since the
	// source started; while it has not, the members are unknown, not absent.
	EverAnswered bool
	// TTL is what records from these members may claim when Expires is zero; zero: the
	// name's own TTL.
	TTL time.Duration
	// Expires, when set, is the moment up to which TTLs count down (it has a monotonic
	// reading; compare with time.Until).
	Expires time.Time
	// Stale says that Slices, or Last where there are none, outlived a failed refresh
	// (DNS_RULES 40).
	Stale bool
	// Since is when Slices, or Last, were last confirmed by the backend.
	Since time.Time
	// Error is the last attempt's error, "" when it went well.
	Error string
	// Chain are the aliases that were followed, in order, of DNS locators: the first
	// one's owner is the locator itself.
	Chain []Alias
}

// ValueKind implements Value.
func (*Members) ValueKind() Kind { return KindBackend }

// Alias is one CNAME of a chain.
type Alias struct {
	Owner, Target names.Name
}
