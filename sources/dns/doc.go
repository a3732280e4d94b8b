// Package dns is the source of DNS backends: it turns a host name, or
// _service._proto.host, into the addresses that its owner publishes, and keeps them
// fresh. It also exports the stub client that it asks with.
//
// A locator's way, from the resolver's wish to the resolver's inbox:
//
//	source.go     Source: Want, Resolve and Touch say which locators matter; Run is the
//	              one goroutine that starts attempts when they are due
//	entry.go      what is remembered of one locator; when its next attempt is due
//	schedule.go   the two queues (locators that answer, locators that fail) and their limits
//	resolve.go    one attempt: SRV, then A and AAAA of each host, aliases followed
//	cache.go      upstream answers, bounded, by (name, type); one lookup at a time for each
//	ask.go        one question over all upstream servers within one budget
//	upstreams.go  which servers: fixed addresses, or those of resolv.conf, re-read
//	client.go     one question to one server: UDP, and TCP where UDP is cut
//	reply.go      bytes → a reply that is whole and ours
//	answer.go     a reply → records, an alias that stops short, nothing, or no such name
//	members.go    the attempt and what was known before → sources.Members
//	status.go     one sources.Status for each wanted locator; log lines with a repeat count
//
// # What is promised
//
// A and AAAA are asked in parallel; all questions of one attempt share one budget
// (Config.Timeout). No lookup runs on a caller's goroutine: Resolve only waits.
//
// Time to live: the smallest one of the alias chain, at most Config.MaxTTL, from the
// first answer on. Members.Expires counts it down. Members.Expires equal to
// Members.Since says that the upstream's own TTL was 0; otherwise it was at least a
// second. A name is refreshed at 80 to 90 % of its TTL and never more than once a second.
//
// A failure is not an absence. While a lookup fails and no other one of the locator gives
// addresses, its last members stay, marked Stale, and Members.Since says how old they are:
// dropping them is the resolver's decision. While one family, or one target of an SRV
// record, fails and others give addresses, that part keeps its last ones for
// Config.KeepPart. NXDOMAIN, and an empty answer that carries an SOA record, are believed
// at once. An empty answer without one proves nothing (it may be a hiccup or a lame
// server) and is a failure, unless the same host has addresses of the other family and
// never had any of this one: small forwarders leave the SOA out. Failures are retried
// after 1 s, growing to 2 s.
//
// Aliases are followed to a depth of MaxAliases, across zones; where an upstream's answer
// stops at an alias, the alias's target is asked for. A loop, or a longer chain, is a
// failure.
//
// SRV priority and weight are not used yet: each distinct port is one sources.Slice with
// the addresses of all of its targets.
//
// # Statuses
//
// Each wanted locator has the status "dns:<locator>" of kind "dns". A locator that is no
// longer wanted is taken back by a Status with that Source and an empty Kind: "gone".
// Names that came by Resolve alone have none, since their number is not the operator's.
package dns
