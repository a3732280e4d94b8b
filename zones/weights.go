package zones

import (
	"encoding/binary"
	"math/bits"
	"net/netip"
	"slices"

	"github.com/meshdns/meshdns/registry"
	"github.com/meshdns/meshdns/resolver"
)

// Weights say how often an address is to be the first of an answer; what follows it is in
// random order (DNS_RULES 23). An entry with weights has an alias table (Walker 1974) for
// each of its two lists: one draw gives the first place, whatever the number of addresses.

// shares are how often each address is to come first, in no unit; nil: all alike.
type shares map[netip.Addr]float64

// sharesOf are the shares of a registered name: a backend's weight is spread evenly over
// its addresses of a family. They are nil without a weight that is written, or where no
// backend with a weight has any address.
func sharesOf(m *resolver.Mesh, sel *resolver.Selection) shares {
	if !slices.ContainsFunc(m.Doc.Backends, func(b registry.Backend) bool { return b.HasWeight }) {
		return nil
	}
	of := make([]map[netip.Addr]bool, 2*len(m.Doc.Backends)) // by backend, then by family
	for i := range sel.Parts {
		part := &sel.Parts[i]
		for list := part.Slice.Endpoints(); list.Next(); {
			if e := &list.Endpoint; part.Reason(e).In() {
				addTo(&of[2*part.Backend+family(e.Address)], e.Address)
			}
		}
	}
	out := shares{}
	for i, addresses := range of {
		weight := resolver.WeightOf(&m.Doc.Backends[i/2])
		for a := range addresses {
			out[a] += float64(weight) / float64(len(addresses))
		}
	}
	return out
}

func family(a netip.Addr) int {
	if a.Is4() {
		return 0
	}
	return 1
}

func addTo(set *map[netip.Addr]bool, a netip.Addr) {
	if *set == nil {
		*set = map[netip.Addr]bool{}
	}
	(*set)[a] = true
}

const aliasSize = 8 // uint32 each: share of the column that is the address's own, of 2^32; the other address

// appendAliases writes the alias table of a list of addresses of a width; nothing when
// their shares are all the same.
func (s shares) appendAliases(out, list []byte, width int) []byte {
	n := len(list) / width
	weights, total := make([]float64, n), 0.0
	for i := range weights {
		a, _ := netip.AddrFromSlice(list[i*width : i*width+width])
		weights[i] = s[a]
		total += weights[i]
	}
	if total == 0 {
		return out
	}
	for i := range weights {
		weights[i] *= float64(n) / total // a column each, 1 on average
	}
	own, other := aliases(weights)
	for i := range own {
		out = binary.LittleEndian.AppendUint32(out, own[i])
		out = binary.LittleEndian.AppendUint32(out, other[i])
	}
	return out
}

// aliases fills columns of height 1: what a low one lacks it has from a high one.
func aliases(height []float64) (own, other []uint32) {
	own, other = make([]uint32, len(height)), make([]uint32, len(height))
	var low, high []int
	for i, h := range height {
		own[i], other[i] = 1<<32-1, uint32(i)
		if h < 1 {
			low = append(low, i)
		} else {
			high = append(high, i)
		}
	}
	for len(low) > 0 && len(high) > 0 {
		l, h := low[len(low)-1], high[len(high)-1]
		low = low[:len(low)-1]
		own[l], other[l] = uint32(height[l]*(1<<32)), uint32(h)
		if height[h] -= 1 - height[l]; height[h] < 1 {
			high = high[:len(high)-1]
			low = append(low, h)
		}
	}
	return own, other
}

// drawn is the place of the address that is to come first, by an alias table.
func (w *Writer) drawn(table []byte) uint32 {
	n := uint64(len(table) / aliasSize)
	i, rest := bits.Mul64(w.Rand.Uint64(), n)
	column := table[i*aliasSize:]
	if uint32(rest>>32) < binary.LittleEndian.Uint32(column) {
		return uint32(i)
	}
	return binary.LittleEndian.Uint32(column[4:])
}
