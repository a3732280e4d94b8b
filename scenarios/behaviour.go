package scenarios

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/miekg/dns"
)

// behaviour is what an upstream does, as the lines below an "upstream" step say.
// It is never changed: a later step replaces it.
type behaviour struct {
	records []dns.RR
	soa     dns.RR // in negative answers; nil for none
	rules   []upstreamRule
}

// upstreamRule is a line "on NAME TYPE [udp|tcp] ACTION…": what is done, in this order,
// with a matching question. The first rule that matches counts.
type upstreamRule struct {
	name      string // canonical, or * for any
	qtype     uint16 // 0 for any
	transport string // "" for any
	actions   []action
}

// action is one thing that an upstream does with a question.
type action struct {
	kind  string
	count int           // of truncate
	delay time.Duration // of delay
}

// Kinds of actions. The first group sends something false and goes on to the next action,
// as an attacker's or a broken server's datagrams would arrive before the right one.
const (
	wrongID       = "wrong-id"
	wrongQuestion = "wrong-question"
	wrongSource   = "wrong-source" // from another socket
	garbage       = "garbage"

	delayed = "delay" // delay DURATION, then the next action
	held    = "hold"  // until the step "release", then the next action

	answered  = "answer"
	truncated = "truncate"   // truncate N: TC and the first N records
	cut       = "cut"        // all counts kept, bytes cut at 512, no TC
	cutBorder = "cut-border" // the same, cut between two records
	aliasOnly = "alias-only" // the CNAMEs without what they lead to
	noData    = "nodata"
	silent    = "silence"
	closed    = "close" // TCP: the connection is closed
)

func (a action) goesOn() bool {
	switch a.kind {
	case wrongID, wrongQuestion, wrongSource, garbage, delayed, held:
		return true
	}
	return false
}

// parseBehaviour reads the lines below an "upstream" step: "record RR", "soa ZONE TTL",
// "on NAME TYPE [udp|tcp] ACTION…".
func parseBehaviour(body []Line) (*behaviour, error) {
	b := &behaviour{}
	for _, line := range body {
		if err := b.addLine(line); err != nil {
			return nil, fmt.Errorf("line %d: %w", line.Number, err)
		}
	}
	return b, nil
}

func (b *behaviour) addLine(line Line) error {
	switch line.Words[0] {
	case "record":
		_, text, _ := strings.Cut(line.Text, " ")
		rr, _, err := parseRecord(strings.TrimSpace(text))
		b.records = append(b.records, rr)
		return err
	case "soa":
		if len(line.Words) != 3 {
			return errors.New("want: soa ZONE TTL")
		}
		zone, ttl := dns.Fqdn(line.Words[1]), line.Words[2]
		var err error
		b.soa, err = dns.NewRR(fmt.Sprintf("%s %s IN SOA ns.%s root.%s 1 3600 600 86400 %s", zone, ttl, zone, zone, ttl))
		return err
	case "on":
		rule, err := parseRule(line.Words[1:])
		b.rules = append(b.rules, rule)
		return err
	}
	return fmt.Errorf("%q: want record, soa or on", line.Words[0])
}

func parseRule(words []string) (upstreamRule, error) {
	if len(words) < 3 {
		return upstreamRule{}, errors.New("want: on NAME TYPE [udp|tcp] ACTION…")
	}
	rule := upstreamRule{name: words[0]}
	if words[0] != "*" {
		rule.name = dns.CanonicalName(words[0])
	}
	if words[1] != "*" {
		var err error
		if rule.qtype, err = parseNumbered(words[1], dns.StringToType, "TYPE"); err != nil {
			return rule, err
		}
	}
	words = words[2:]
	if words[0] == "udp" || words[0] == "tcp" {
		rule.transport, words = words[0], words[1:]
	}
	var err error
	rule.actions, err = parseActions(words)
	return rule, err
}

func parseActions(words []string) ([]action, error) {
	var all []action
	for len(words) > 0 {
		a, used, err := parseAction(words)
		if err != nil {
			return nil, err
		}
		all = append(all, a)
		words = words[used:]
	}
	if len(all) == 0 || all[len(all)-1].goesOn() {
		return nil, errors.New("the last action must be one that ends: answer, silence, an rcode …")
	}
	return all, nil
}

func parseAction(words []string) (a action, used int, err error) {
	a.kind = words[0]
	switch a.kind {
	case wrongID, wrongQuestion, wrongSource, garbage, held, answered, cut, cutBorder, aliasOnly, noData, silent, closed:
		return a, 1, nil
	case truncated, delayed:
		if len(words) < 2 {
			return a, 0, fmt.Errorf("%s needs a value", a.kind)
		}
		if a.kind == truncated {
			a.count, err = strconv.Atoi(words[1])
		} else {
			a.delay, err = time.ParseDuration(words[1])
		}
		return a, 2, err
	}
	if _, ok := rcodeNamed(a.kind); !ok {
		return a, 0, fmt.Errorf("unknown action %q", a.kind)
	}
	return a, 1, nil
}

// actionsFor a question: of the first rule that matches, else the plain answer.
func (b *behaviour) actionsFor(q dns.Question, transport string) []action {
	for _, rule := range b.rules {
		if (rule.name == "*" || rule.name == dns.CanonicalName(q.Name)) &&
			(rule.qtype == 0 || rule.qtype == q.Qtype) &&
			(rule.transport == "" || rule.transport == transport) {
			return rule.actions
		}
	}
	return []action{{kind: answered}}
}

// answer is the plain answer of a recursive server that knows only its records: aliases
// followed, RA set, AA clear.
func (b *behaviour) answer(query *dns.Msg) *dns.Msg {
	m := new(dns.Msg).SetReply(query)
	m.RecursionAvailable = true
	if opt := query.IsEdns0(); opt != nil {
		m.SetEdns0(dns.DefaultMsgSize, opt.Do())
	}
	name, exists := query.Question[0].Name, false
	for hops := 0; hops <= len(b.records); hops++ {
		var next string
		for _, rr := range b.records {
			if !sameName(rr.Header().Name, name) {
				continue
			}
			exists = true
			alias, isAlias := rr.(*dns.CNAME)
			if rr.Header().Rrtype == query.Question[0].Qtype || isAlias {
				m.Answer = append(m.Answer, dns.Copy(rr))
			}
			if isAlias && query.Question[0].Qtype != dns.TypeCNAME {
				next = alias.Target
			}
		}
		if next == "" {
			break
		}
		name, exists = next, false
	}
	if !exists {
		m.Rcode = dns.RcodeNameError
	}
	b.addSOA(m, name)
	return m
}

// addSOA puts the SOA into a negative answer: one whose chain ends without data.
func (b *behaviour) addSOA(m *dns.Msg, end string) {
	for _, rr := range m.Answer {
		if sameName(rr.Header().Name, end) {
			return
		}
	}
	if b.soa != nil {
		m.Ns = append(m.Ns, dns.Copy(b.soa))
	}
}
