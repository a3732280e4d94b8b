package registry

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/meshdns/meshdns/document"
	"github.com/meshdns/meshdns/names"
	"github.com/meshdns/meshdns/sources"
)

// checker checks one document and makes its value. Its paths are the document's.
type checker struct {
	opts     *Options
	doc      *document.Document
	problems []document.Problem
}

func (c *checker) errorf(path, format string, args ...any) {
	c.problems = append(c.problems, c.doc.Errorf(path, format, args...))
}

func (c *checker) warnf(path, format string, args ...any) {
	c.problems = append(c.problems, c.doc.Warnf(path, format, args...))
}

// finish turns a decoded document into its value and keeps that when there is no error.
// problems are those of decoding.
func (r *reader) finish(doc *document.Document, problems []document.Problem, object rawObject, spec *rawSpec) {
	c := checker{opts: r.opts, doc: doc}
	service := &MeshService{
		Name:   c.name(object.Metadata.Name),
		Origin: r.origin(doc, object.Kind),
		Labels: object.Metadata.Labels, Created: object.Metadata.CreationTimestamp,
		Ports: c.ports(spec.Ports), Identity: c.identity(spec.Identity), Policy: c.policy(spec.Policy),
		nameAt: doc.At("metadata.name"),
	}
	if spec.TTL != nil {
		service.TTL, service.HasTTL = spec.TTL.Duration(), true
	}
	service.Backends = c.backends(service.Name, spec)
	if problems = document.Merge(problems, c.problems); document.HasErrors(problems) {
		r.refuse(doc, problems...)
		return
	}
	r.Problems = append(r.Problems, problems...)
	r.Services = append(r.Services, service)
}

// name checks metadata.name; it returns the zero Name when it is bad.
func (c *checker) name(text string) names.Name {
	const field = "metadata.name"
	if text == "" {
		c.errorf(field, "missing: want a DNS name below %s", c.opts.Mesh.Text())
		return names.Name{}
	}
	name, err := names.Parse(text)
	switch {
	case err != nil:
		c.errorf(field, "%v", err)
		return names.Name{}
	case name == c.opts.Mesh || !name.IsAtOrBelow(c.opts.Mesh):
		c.errorf(field, "%s is not below the mesh zone %s", name.Text(), c.opts.Mesh.Text())
		return names.Name{}
	}
	for _, label := range name.Labels() {
		if !isRegistrableLabel(label) {
			c.errorf(field, "label %q: want letters, digits, hyphens and underscores, no hyphen at an end and no underscore at the beginning", label)
			return names.Name{}
		}
	}
	if why := c.taken(name); why != "" {
		c.errorf(field, "%s %s", name.Text(), why)
	}
	return name
}

// isRegistrableLabel says whether a registered name may have the label: a host's, or with
// underscores in it. At the beginning they are SRV's and _identity's (DNS_RULES 21).
func isRegistrableLabel(label string) bool {
	return label[0] != '_' && names.IsHostLabel(strings.ReplaceAll(label, "_", "x"))
}

// taken says why a name is the server's own, "" when it is not.
func (c *checker) taken(name names.Name) string {
	for _, label := range []string{"dns", "dns-version"} {
		own, err := c.opts.Mesh.Prepend(label)
		if err == nil && name.IsAtOrBelow(own) {
			return "is reserved for the server's own names"
		}
	}
	for _, zone := range c.opts.Zones {
		if zone != c.opts.Mesh && zone.IsAtOrBelow(c.opts.Mesh) && name.IsAtOrBelow(zone) {
			return "is in the zone " + zone.Text() + ", which is not for registered names"
		}
	}
	return ""
}

func (c *checker) ports(raw []rawPort) []sources.Port {
	var ports []sources.Port
	for i, p := range raw {
		at := fmt.Sprintf("spec.ports[%d]", i)
		port := sources.Port{Name: names.Lower(p.Name), Number: p.Port, Protocol: c.protocol(at+".protocol", p.Protocol)}
		if port.Name != "" && !names.IsHostLabel(port.Name) {
			c.errorf(at+".name", "port name %q: want letters, digits and inner hyphens, at most 63", p.Name)
		}
		if port.Number == 0 {
			c.errorf(at+".port", "missing: want 1 to 65535")
		}
		if slices.ContainsFunc(ports, func(q sources.Port) bool { return q.Name == port.Name && q.Protocol == port.Protocol }) {
			c.errorf(at, "a second %s port with the name %q", port.Protocol, port.Name)
		}
		ports = append(ports, port)
	}
	return ports
}

func (c *checker) protocol(at, text string) sources.Protocol {
	switch strings.ToUpper(text) {
	case "", "TCP":
	case "UDP":
		return sources.UDP
	case "SCTP":
		return sources.SCTP
	default:
		c.errorf(at, "unknown protocol %q: want TCP, UDP or SCTP", text)
	}
	return sources.TCP
}

// identity checks a SPIFFE ID (SPIFFE-ID standard, section 2).
func (c *checker) identity(id string) string {
	if id == "" {
		return ""
	}
	if err := checkSPIFFE(id); err != nil {
		c.errorf("spec.identity", "%q is no SPIFFE ID such as spiffe://domain/path: %v", id, err)
	}
	return id
}

func checkSPIFFE(id string) error {
	const maxLength = 2048 // SPIFFE-ID section 2.3
	const allowed = "abcdefghijklmnopqrstuvwxyz0123456789.-_"
	rest, ok := strings.CutPrefix(id, "spiffe://")
	switch {
	case !ok:
		return errors.New("it must begin with spiffe://")
	case len(id) > maxLength:
		return fmt.Errorf("longer than %d bytes", maxLength)
	}
	domain, path, hasPath := strings.Cut(rest, "/")
	if domain == "" || !madeOf(domain, allowed) {
		return fmt.Errorf("trust domain %q: want lower-case letters, digits, dots, hyphens and underscores", domain)
	}
	for segment := range strings.SplitSeq(path, "/") {
		if hasPath && (segment == "" || segment == "." || segment == "..") || !madeOf(strings.ToLower(segment), allowed) {
			return fmt.Errorf("path segment %q: want letters, digits, dots, hyphens and underscores", segment)
		}
	}
	return nil
}

// madeOf says whether s has no other characters than those of set.
func madeOf(s, set string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return !strings.ContainsRune(set, r) }) < 0
}

func (c *checker) policy(raw rawPolicy) Policy {
	c.closedSet("spec.policy.order", raw.Order, "shuffle")
	c.closedSet("spec.policy.locality", raw.Locality, "none", "prefer", "strict")
	if raw.Locality != "" && raw.Locality != "none" {
		c.notYet("spec.policy.locality", "endpoints of all places are answered alike")
	}
	if raw.MaxAnswers < 0 {
		c.errorf("spec.policy.maxAnswers", "%d is out of range: 0 (all) or more", raw.MaxAnswers)
	} else if raw.MaxAnswers > 0 {
		c.notYet("spec.policy.maxAnswers", "all addresses are answered")
	}
	if raw.PanicThreshold < 0 || raw.PanicThreshold > 100 {
		c.errorf("spec.policy.panicThreshold", "%d is out of range: 0 to 100 percent", raw.PanicThreshold)
	} else if raw.PanicThreshold > 0 {
		c.notYet("spec.policy.panicThreshold", "health is not probed")
	}
	return Policy(raw)
}

func (c *checker) closedSet(at, value string, allowed ...string) {
	if value != "" && !slices.Contains(allowed, value) {
		c.errorf(at, "unknown value %q: want %s", value, strings.Join(allowed, ", "))
	}
}

// notYet warns of a field that is accepted and does nothing so far.
func (c *checker) notYet(at, instead string) { c.warnf(at, "not yet effective: %s", instead) }
