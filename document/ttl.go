package document

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"
)

// TTL is a time to live as documents write it: whole seconds (5) or a duration (5s, 1m).
// It is never negative and at most 2^31-1 seconds (RFC 2181 section 8).
type TTL time.Duration

// Duration is the TTL as a duration of whole seconds.
func (t TTL) Duration() time.Duration { return time.Duration(t) }

// String is the TTL as a duration.
func (t TTL) String() string { return time.Duration(t).String() }

// UnmarshalText implements encoding.TextUnmarshaler.
func (t *TTL) UnmarshalText(text []byte) error {
	seconds, err := ttlSeconds(string(text))
	if err != nil {
		return err
	}
	if seconds < 0 || seconds > math.MaxInt32 {
		return fmt.Errorf("a TTL of %s is out of range: 0 to %d seconds", text, math.MaxInt32)
	}
	*t = TTL(time.Duration(seconds) * time.Second)
	return nil
}

func ttlSeconds(text string) (int64, error) {
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err == nil || errors.Is(err, strconv.ErrRange) {
		return seconds, nil // out of range stays out of range: the nearest int64
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("%q is no TTL: want whole seconds or a duration such as 5s", text)
	}
	if d%time.Second != 0 {
		return 0, fmt.Errorf("a TTL of %s has a part of a second: DNS knows whole seconds only", text)
	}
	return int64(d / time.Second), nil
}
