package zones

// TTLs. Those of live data are constant: a cache in front may keep what it got for as
// long, however old the data are here. Those from DNS backends count down to the moment
// at which their owner's TTL ends (DNS_RULES 40).

// setTTL takes an entry's TTL, and the moment that it counts down to.
func (a *Answer) setTTL(e entry) {
	a.ttl = e.u32(hTTL)
	a.expires = int64(uint64(e.u32(hExpires)) | uint64(e.u32(hExpires+4))<<32)
}

// CountsDown says whether a TTL of the answer depends on the time.
func (a *Answer) CountsDown() bool {
	if a.expires != 0 {
		return true
	}
	for i := range a.chain {
		if a.chain[i].expires != 0 {
			return true
		}
	}
	return false
}

// remaining is the TTL of the answer's records at now, in milliseconds of View.Clock.
func (a *Answer) remaining(now int64) uint32 { return remaining(a.ttl, a.expires, now) }

// remaining is what is left of a TTL: at least 1 while it counts down, at most ttl.
func remaining(ttl uint32, expires, now int64) uint32 {
	if expires == 0 {
		return ttl
	}
	left := (expires - now + 999) / 1000
	return uint32(max(1, min(left, int64(ttl))))
}
