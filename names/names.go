// Package names holds canonical domain names: lower-case, in wire form, comparable
// with ==, usable as map keys. It is the first step of every way through the server:
// config and registry parse what people write into a Name, sources and resolver key
// their values by it, zones packs it, and server lower-cases a question into the same
// bytes without making a Name.
//
//	names.go   Name: parsing, printing, labels, suffixes
//	labels.go  single labels: what a host label may be, the dashed form of an address
package names

import (
	"errors"
	"fmt"
	"strings"
)

// Sizes of RFC 1035 section 2.3.4.
const (
	MaxLabel = 63  // bytes of one label, without its length byte
	MaxName  = 255 // bytes of a name in wire form, with the root's zero byte
)

var (
	errEmpty     = errors.New("empty name")
	errEmptyPart = errors.New("empty label")
	errLabel     = errors.New("label longer than 63 bytes")
	errName      = errors.New("name longer than 255 bytes in wire form")
	errEscape    = errors.New(`broken escape: want \. or \DDD`)
)

// Name is a canonical absolute domain name (RFC 4034 section 6.2): wire form, ASCII
// letters lower-cased, root byte included. The zero value is no name at all and is not
// the root.
type Name struct {
	wire string
}

// Root is the name of zero labels.
var Root = Name{wire: "\x00"}

// Parse reads a name in presentation form (RFC 1035 section 5.1, `\.` and `\DDD`
// understood). The final dot may be left out: every name is absolute. Errors name the
// text and what is wrong with it.
func Parse(text string) (Name, error) {
	wire, err := parse(text)
	if err != nil {
		return Name{}, fmt.Errorf("domain name %q: %w", text, err)
	}
	return Name{wire: string(wire)}, nil
}

// MustParse is Parse for constants; it panics on an error.
func MustParse(text string) Name {
	n, err := Parse(text)
	if err != nil {
		panic(err)
	}
	return n
}

func parse(text string) ([]byte, error) {
	switch text {
	case "":
		return nil, errEmpty
	case ".":
		return []byte{0}, nil
	}
	wire := make([]byte, 1, len(text)+2)
	start := 0 // where the current label's length byte is
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c == '.' {
			if err := closeLabel(wire, start); err != nil {
				return nil, err
			}
			start = len(wire)
			wire = append(wire, 0)
			continue
		}
		if c == '\\' {
			decoded, used, err := unescape(text[i+1:])
			if err != nil {
				return nil, err
			}
			c, i = decoded, i+used
		}
		wire = append(wire, lower(c))
	}
	if start != len(wire)-1 { // no final dot: end the last label here
		if err := closeLabel(wire, start); err != nil {
			return nil, err
		}
		wire = append(wire, 0)
	}
	if len(wire) > MaxName {
		return nil, errName
	}
	return wire, nil
}

// closeLabel writes the length byte of the label that starts at start and ends at the
// end of wire.
func closeLabel(wire []byte, start int) error {
	n := len(wire) - start - 1
	if n == 0 {
		return errEmptyPart
	}
	if n > MaxLabel {
		return errLabel
	}
	wire[start] = byte(n)
	return nil
}

// unescape reads what follows a backslash: one byte, or three decimal digits.
func unescape(s string) (c byte, used int, err error) {
	if s == "" {
		return 0, 0, errEscape
	}
	if !isDigit(s[0]) {
		return s[0], 1, nil
	}
	if len(s) < 3 || !isDigit(s[1]) || !isDigit(s[2]) {
		return 0, 0, errEscape
	}
	v := int(s[0]-'0')*100 + int(s[1]-'0')*10 + int(s[2]-'0')
	if v > 255 {
		return 0, 0, errEscape
	}
	return byte(v), 3, nil
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

// FromWire makes a Name of a whole uncompressed name in wire form. It copies wire.
func FromWire(wire []byte) (Name, error) {
	if len(wire) == 0 || len(wire) > MaxName {
		return Name{}, fmt.Errorf("wire name of %d bytes: %w", len(wire), errName)
	}
	out := make([]byte, len(wire))
	for i := 0; i < len(wire); {
		n := int(wire[i])
		if n == 0 && i == len(wire)-1 {
			return Name{wire: string(out)}, nil
		}
		if n == 0 || n > MaxLabel || i+n+1 >= len(wire) {
			break
		}
		out[i] = wire[i]
		for j := i + 1; j <= i+n; j++ {
			out[j] = lower(wire[j])
		}
		i += n + 1
	}
	return Name{}, errors.New("wire name: label runs past the end")
}

// IsZero says that n is no name.
func (n Name) IsZero() bool { return n.wire == "" }

// Wire is the name in wire form, lower-case, root byte included; "" of the zero Name.
func (n Name) Wire() string { return n.wire }

// String is the presentation form with its final dot, "" of the zero Name.
func (n Name) String() string {
	if n.wire == "\x00" {
		return "."
	}
	var b strings.Builder
	for rest := n.wire; len(rest) > 1; rest = rest[1+rest[0]:] {
		writeEscaped(&b, rest[1:1+rest[0]])
		b.WriteByte('.')
	}
	return b.String()
}

// Text is String without the final dot: the form of the API and of people.
func (n Name) Text() string {
	if n.wire == "\x00" {
		return "."
	}
	return strings.TrimSuffix(n.String(), ".")
}

// MarshalText implements encoding.TextMarshaler with Text.
func (n Name) MarshalText() ([]byte, error) { return []byte(n.Text()), nil }

// UnmarshalText implements encoding.TextUnmarshaler with Parse; empty text is the zero Name.
func (n *Name) UnmarshalText(text []byte) (err error) {
	if len(text) == 0 {
		*n = Name{}
		return nil
	}
	*n, err = Parse(string(text))
	return err
}

func writeEscaped(b *strings.Builder, label string) {
	for i := 0; i < len(label); i++ {
		switch c := label[i]; {
		case c == '.' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c <= ' ' || c >= 0x7f || c == '"' || c == ';' || c == '(' || c == ')' || c == '@' || c == '$':
			fmt.Fprintf(b, `\%03d`, c)
		default:
			b.WriteByte(c)
		}
	}
}

// NumLabels is the number of labels; the root and the zero Name have none.
func (n Name) NumLabels() int {
	count := 0
	for rest := n.wire; len(rest) > 1; rest = rest[1+rest[0]:] {
		count++
	}
	return count
}

// Labels are the raw bytes of the labels, leftmost first.
func (n Name) Labels() []string {
	var labels []string
	for rest := n.wire; len(rest) > 1; rest = rest[1+rest[0]:] {
		labels = append(labels, rest[1:1+rest[0]])
	}
	return labels
}

// Parent is the name without its leftmost label; the root's parent is the zero Name.
func (n Name) Parent() Name {
	if len(n.wire) <= 1 {
		return Name{}
	}
	return Name{wire: n.wire[1+n.wire[0]:]}
}

// IsAtOrBelow says whether n is zone or has it as an ancestor, by whole labels.
func (n Name) IsAtOrBelow(zone Name) bool {
	if zone.IsZero() {
		return false
	}
	for rest := n.wire; len(rest) >= len(zone.wire); rest = rest[1+rest[0]:] {
		if rest == zone.wire {
			return true
		}
		if len(rest) == 1 {
			break
		}
	}
	return false
}

// Relative is the wire form of n's labels below zone, without a root byte: "" at the
// zone itself; ok is false outside of it.
func (n Name) Relative(zone Name) (relative string, ok bool) {
	if !n.IsAtOrBelow(zone) {
		return "", false
	}
	return n.wire[:len(n.wire)-len(zone.wire)], true
}

// Prepend puts labels (raw bytes, leftmost first) before n. It fails on an empty or
// overlong label and on a name that would pass 255 bytes.
func (n Name) Prepend(labels ...string) (Name, error) {
	var b strings.Builder
	for _, label := range labels {
		if label == "" || len(label) > MaxLabel {
			return Name{}, fmt.Errorf("label %q: %w", label, errLabel)
		}
		b.WriteByte(byte(len(label)))
		for i := 0; i < len(label); i++ {
			b.WriteByte(lower(label[i]))
		}
	}
	if b.Len()+len(n.wire) > MaxName {
		return Name{}, errName
	}
	return Name{wire: b.String() + n.wire}, nil
}

// Join puts the labels of relative (wire form without a root byte) before n.
func (n Name) Join(relative string) (Name, error) {
	if len(relative)+len(n.wire) > MaxName {
		return Name{}, errName
	}
	return FromWire([]byte(relative + n.wire))
}
