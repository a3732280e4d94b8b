package scenarios

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/tools/txtar"
)

// Script is one scenario: the steps at the top of a txtar archive and the files below.
type Script struct {
	Path  string // as it was opened, for messages
	Steps []Step
	Files []txtar.File
	Rules []int    // numbers of the DNS rules that its comments name
	Cases []string // ids of the cases that its comments name, such as C01
}

// Step is a line that starts in the first column, with the indented lines below it.
type Step struct {
	Line
	Body []Line
}

// Line is one line of a script.
type Line struct {
	Number int      // from 1
	Words  []string // at least one
	Text   string   // the line without indentation and comment, quotes kept
}

// Load reads a script.
func Load(path string) (*Script, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the script: %w", err)
	}
	return Parse(path, data)
}

// Parse reads a script from memory; path is what messages call it. Errors name the line.
func Parse(path string, data []byte) (*Script, error) {
	archive := txtar.Parse(data)
	s := &Script{Path: path, Files: archive.Files}
	for i, text := range strings.Split(string(archive.Comment), "\n") {
		if err := s.addLine(i+1, text); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", filepath.Base(path), i+1, err)
		}
	}
	if len(s.Steps) == 0 {
		return nil, fmt.Errorf("%s: no steps", filepath.Base(path))
	}
	return s, nil
}

func (s *Script) addLine(number int, text string) error {
	trimmed := strings.TrimSpace(text)
	if trimmed == "" {
		return nil
	}
	if trimmed[0] == '#' {
		s.addReferences(trimmed)
		return nil
	}
	words, bare, err := split(trimmed)
	if err != nil {
		return err
	}
	line := Line{Number: number, Words: words, Text: bare}
	if text[0] != ' ' && text[0] != '\t' {
		s.Steps = append(s.Steps, Step{Line: line})
		return nil
	}
	if len(s.Steps) == 0 {
		return fmt.Errorf("an indented line belongs to a step, and there is none above")
	}
	last := &s.Steps[len(s.Steps)-1]
	last.Body = append(last.Body, line)
	return nil
}

var (
	rulesNamed = regexp.MustCompile(`(?i)\brules? (\d+(?:(?:, | and )\d+)*)`)
	numbers    = regexp.MustCompile(`\d+`)
	casesNamed = regexp.MustCompile(`\bC\d{2,3}\b`)
)

// addReferences notes the rules ("rule 4", "rules 4, 5 and 8") and cases ("C01") that a
// comment names.
func (s *Script) addReferences(comment string) {
	for _, found := range rulesNamed.FindAllStringSubmatch(comment, -1) {
		for _, number := range numbers.FindAllString(found[1], -1) {
			n, _ := strconv.Atoi(number)
			s.Rules = append(s.Rules, n)
		}
	}
	s.Cases = append(s.Cases, casesNamed.FindAllString(comment, -1)...)
}

// upstreams are the names of the upstreams that the script uses, with the address that
// each wants ("" for any).
func (s *Script) upstreams() map[string]string {
	found := map[string]string{}
	for _, step := range s.Steps {
		if step.Words[0] != "upstream" || len(step.Words) < 2 {
			continue
		}
		name := step.Words[1]
		if len(step.Words) > 2 {
			found[name] = step.Words[2]
		} else if _, known := found[name]; !known {
			found[name] = ""
		}
	}
	return found
}
