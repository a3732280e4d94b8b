package config

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/meshdns/meshdns/document"
	"github.com/meshdns/meshdns/names"
)

const servesNothing = "neither clusters nor registryDir: no service is served"

// validator checks a decoded configuration and fills in what depends on other fields.
type validator struct {
	doc      *document.Document
	cfg      *Config
	problems []document.Problem
}

func (v *validator) errorf(path, format string, args ...any) {
	v.problems = append(v.problems, v.doc.Errorf(path, format, args...))
}

func (v *validator) warnf(path, format string, args ...any) {
	v.problems = append(v.problems, v.doc.Warnf(path, format, args...))
}

// notYet warns of a field that is accepted and does nothing so far.
func (v *validator) notYet(path, instead string) { v.warnf(path, "not yet effective: %s", instead) }

// closedSet reports a value that is not one of those allowed; the value must not be empty.
func closedSet[T ~string](v *validator, path string, value T, allowed ...T) {
	if slices.Contains(allowed, value) {
		return
	}
	words := make([]string, len(allowed))
	for i, a := range allowed {
		words[i] = string(a)
	}
	v.errorf(path, "unknown value %q: want %s", string(value), strings.Join(words, ", "))
}

func (v *validator) notNegative(path string, d time.Duration) {
	if d < 0 {
		v.errorf(path, "%s is negative", d)
	}
}

// validate runs all checks, whatever the ones before have found.
func (v *validator) validate() {
	c := v.cfg
	v.listen()
	v.server()
	v.upstreams()
	v.clusters()
	v.site()
	v.zones()
	v.equivalence()
	v.defaults()
	v.staleness("staleness", c.Staleness)
	v.notNegative("startup.grace", c.Startup.Grace)
	closedSet(v, "startup.then", c.Startup.Then, ThenServfail, ThenNXDomain)
	if c.StateDir != "" {
		v.notYet("stateDir", "no state is kept over a restart")
	}
	if len(c.Clusters) == 0 && c.RegistryDir == "" {
		v.warnf("", servesNothing)
	}
}

func (v *validator) defaults() {
	d := v.cfg.Defaults
	closedSet(v, "defaults.order", d.Order, "shuffle")
	closedSet(v, "defaults.locality", d.Locality, "none", "prefer", "strict")
	if d.Locality == "prefer" || d.Locality == "strict" {
		v.notYet("defaults.locality", "endpoints of all places are answered alike")
	}
}

func (v *validator) staleness(path string, s Staleness) {
	v.notNegative(path+".keepShared", s.KeepShared)
	v.notNegative(path+".keepOnly", s.KeepOnly)
	if s.KeepOnly >= 0 && s.KeepShared > s.KeepOnly {
		v.warnf(path, "keepShared (%s) is longer than keepOnly (%s): after keepOnly nothing is kept at all", s.KeepShared, s.KeepOnly)
	}
	closedSet(v, path+".then", s.Then, ThenServfail, ThenDrop)
}

func (v *validator) equivalence() {
	e := v.cfg.Equivalence
	if e.Match == "exported" {
		// It decides what is served, so it is enforced or refused, never ignored.
		v.errorf("equivalence.match", `"exported" is not built in yet: everything would be served as if it were exported; want name or label`)
	} else {
		closedSet(v, "equivalence.match", e.Match, MatchName, MatchLabel)
	}
	if !isLabelKey(e.Label) {
		v.errorf("equivalence.label", "%q is no label key such as %s", e.Label, defaultLabel)
	}
	for i, pattern := range e.Exclude {
		if err := checkServicePattern(pattern); err != nil {
			v.errorf(fmt.Sprintf("equivalence.exclude[%d]", i), "%v", err)
		}
	}
}

// isLabelKey says whether s is a Kubernetes label key: a name of at most 63 letters,
// digits and inner -_. characters, after a DNS subdomain and a slash where there is one.
func isLabelKey(s string) bool {
	prefix, name, ok := strings.Cut(s, "/")
	if !ok {
		prefix, name = "x", s
	}
	plain := strings.NewReplacer("_", "-", ".", "-").Replace(names.Lower(name))
	return isSubdomain(prefix) && names.IsHostLabel(plain)
}

// isSubdomain says whether s is a lower-case DNS subdomain as Kubernetes has it.
func isSubdomain(s string) bool {
	for label := range strings.SplitSeq(s, ".") {
		if !names.IsHostLabel(label) {
			return false
		}
	}
	return len(s) <= names.MaxName-2 // in wire form a length byte and the root are added
}
