package main

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/miekg/dns"

	"github.com/meshdns/meshdns/bench/data"
)

// checked names are asked of each server before it is loaded.
const checked = 20

// checkAnswers asks for names from all over the mesh and compares the answers.
func checkAnswers(addr string, f data.Fleet) error {
	step := max(1, f.Services/checked)
	for i := 0; i < f.Services; i += step {
		if err := checkAnswer(addr, f, i); err != nil {
			return err
		}
	}
	return checkAnswer(addr, f, f.Services-1)
}

// checkAnswer asks once for service i.
func checkAnswer(addr string, f data.Fleet, i int) error {
	want := slices.Clone(f.Addresses(i))
	client := dns.Client{Timeout: time.Second}
	query := new(dns.Msg).SetQuestion(f.Host(i)+".", dns.TypeA)
	reply, _, err := client.Exchange(query, addr)
	if err != nil {
		return fmt.Errorf("ask for %s: %w", f.Host(i), err)
	}
	got, err := addresses(reply)
	if err != nil {
		return fmt.Errorf("answer to %s: %w", f.Host(i), err)
	}
	slices.SortFunc(want, netip.Addr.Compare)
	slices.SortFunc(got, netip.Addr.Compare)
	if !slices.Equal(got, want) {
		return fmt.Errorf("answer to %s: %v in place of %v", f.Host(i), got, want)
	}
	return nil
}

// addresses are those of an answer that has nothing else in it.
func addresses(reply *dns.Msg) ([]netip.Addr, error) {
	if reply.Rcode != dns.RcodeSuccess || !reply.Authoritative || reply.Truncated {
		return nil, fmt.Errorf("%s, AA %v, TC %v", dns.RcodeToString[reply.Rcode], reply.Authoritative, reply.Truncated)
	}
	if len(reply.Ns)+len(reply.Extra) > 0 {
		return nil, fmt.Errorf("%d records beside the answer: sizes would not be comparable", len(reply.Ns)+len(reply.Extra))
	}
	var all []netip.Addr
	for _, rr := range reply.Answer {
		a, ok := rr.(*dns.A)
		if !ok {
			return nil, fmt.Errorf("a record that is no address: %s", rr)
		}
		address, _ := netip.AddrFromSlice(a.A.To4())
		all = append(all, address)
	}
	return all, nil
}
