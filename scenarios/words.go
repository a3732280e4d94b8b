package scenarios

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// split cuts text into words at blanks. Double quotes keep blanks together and are
// dropped; a word that starts with # begins a comment, which ends the line. bare is text
// without the comment, quotes kept.
func split(text string) (words []string, bare string, err error) {
	var word strings.Builder
	inWord, quoted := false, false
	end := len(text)
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c == '"':
			quoted, inWord = !quoted, true
		case quoted || c != ' ' && c != '\t' && (c != '#' || inWord):
			word.WriteByte(c)
			inWord = true
		case c == '#':
			end, i = i, len(text)
		case inWord:
			words = append(words, word.String())
			word.Reset()
			inWord = false
		}
	}
	if quoted {
		return nil, "", errors.New("a quote is not closed")
	}
	if inWord {
		words = append(words, word.String())
	}
	return words, strings.TrimSpace(text[:end]), nil
}

// span is a range of numbers, both ends included.
type span struct{ low, high int64 }

// parseSpan reads 5, >=5, <=5 or 5..9.
func parseSpan(text string) (s span, err error) {
	low, high := text, text
	switch {
	case strings.HasPrefix(text, ">="):
		low, high = text[2:], strconv.Itoa(math.MaxInt64)
	case strings.HasPrefix(text, "<="):
		low, high = strconv.Itoa(math.MinInt64), text[2:]
	case strings.Contains(text, ".."):
		low, high, _ = strings.Cut(text, "..")
	}
	if s.low, err = strconv.ParseInt(low, 10, 64); err == nil {
		s.high, err = strconv.ParseInt(high, 10, 64)
	}
	if err != nil {
		return s, fmt.Errorf("%q is no number or range (5, >=5, <=5, 5..9)", text)
	}
	return s, nil
}

func (s span) holds(n int64) bool { return s.low <= n && n <= s.high }

// wantSpan fails unless n is in the range that text says; what names n.
func wantSpan(what, text string, n int64) error {
	s, err := parseSpan(text)
	if err != nil {
		return err
	}
	if !s.holds(n) {
		return fmt.Errorf("%s: want %s, got %d", what, text, n)
	}
	return nil
}

// settings are the key=value words of a step.
type settings map[string]string

// parseSettings divides words into key=value settings, of which only the known ones are
// allowed, and the rest.
func parseSettings(words []string, known ...string) (settings, []string, error) {
	set := settings{}
	var rest []string
	for _, word := range words {
		key, value, found := strings.Cut(word, "=")
		if !found {
			rest = append(rest, word)
			continue
		}
		if !slices.Contains(known, key) {
			return nil, nil, fmt.Errorf("unknown setting %q; known: %s", key, strings.Join(known, ", "))
		}
		set[key] = value
	}
	return set, rest, nil
}

// number is the setting as a number, or the default where it is absent.
func (s settings) number(key string, byDefault int) (int, error) {
	text, ok := s[key]
	if !ok {
		return byDefault, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, fmt.Errorf("setting %s: %q is no number", key, text)
	}
	return n, nil
}

var variable = regexp.MustCompile(`\$\{([a-zA-Z0-9_-]+)\}`)

// expand replaces ${name} by its value; an unknown name is an error.
func expand(text string, vars map[string]string) (string, error) {
	var err error
	out := variable.ReplaceAllStringFunc(text, func(ref string) string {
		value, ok := vars[ref[2:len(ref)-1]]
		if !ok {
			err = fmt.Errorf("unknown variable %s", ref)
		}
		return value
	})
	return out, err
}

// matchAll fails unless each pattern (a regular expression, lines by themselves) is
// found in text.
func matchAll(what, text string, patterns []string) error {
	for _, pattern := range patterns {
		re, err := regexp.Compile("(?m)" + pattern)
		if err != nil {
			return fmt.Errorf("pattern %q: %w", pattern, err)
		}
		if !re.MatchString(text) {
			return fmt.Errorf("%s does not match %q:\n%s", what, pattern, text)
		}
	}
	return nil
}
