package names

import (
	"net/netip"
	"strings"
)

// IsHostLabel says whether s, lower-case, is one label that a host may have (RFC 1123
// section 2.1): letters, digits and inner hyphens, 1 to 63 bytes.
func IsHostLabel(s string) bool {
	if s == "" || len(s) > MaxLabel || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	for i := 0; i < len(s); i++ {
		if c := s[i]; !('a' <= c && c <= 'z' || isDigit(c) || c == '-') {
			return false
		}
	}
	return true
}

// Lower is s with its ASCII letters lower-cased, other bytes untouched (RFC 4343).
func Lower(s string) string {
	for i := 0; i < len(s); i++ {
		if 'A' <= s[i] && s[i] <= 'Z' {
			return lowerCopy(s)
		}
	}
	return s
}

func lowerCopy(s string) string {
	b := []byte(s)
	for i, c := range b {
		b[i] = lower(c)
	}
	return string(b)
}

// Dashed is the host label that an address gets when nothing better is known:
// 192-0-2-1, 2001-db8--1; a leading or trailing "::" is padded with a zero, since a
// label may not begin or end with a hyphen.
func Dashed(addr netip.Addr) string {
	s := strings.Map(func(r rune) rune {
		if r == '.' || r == ':' {
			return '-'
		}
		return r
	}, addr.Unmap().WithZone("").String())
	if s[0] == '-' {
		s = "0" + s
	}
	if s[len(s)-1] == '-' {
		s += "0"
	}
	return s
}
