package cli

import (
	"net"
	"net/netip"
	"slices"
)

// glueOf are the addresses of ns.dns.<zone>: those that are listened on, or, on
// wildcards, the host's (DESIGN section 5, Apex). Texts that are no addresses have been
// refused before.
func glueOf(listen []string) []netip.Addr {
	var glue []netip.Addr
	for _, text := range listen {
		at, err := parseListen(text)
		if err != nil {
			continue
		}
		glue = append(glue, addressesBehind(at.Addr())...)
	}
	slices.SortFunc(glue, netip.Addr.Compare)
	return slices.Compact(glue)
}

func addressesBehind(addr netip.Addr) []netip.Addr {
	switch {
	case !addr.IsValid():
		return hostAddresses(func(netip.Addr) bool { return true })
	case addr == netip.IPv4Unspecified():
		return hostAddresses(netip.Addr.Is4)
	case addr.IsUnspecified():
		return hostAddresses(func(netip.Addr) bool { return true })
	default:
		return []netip.Addr{addr.Unmap().WithZone("")}
	}
}

// hostAddresses are the host's addresses that others can use; its loopback addresses when
// there are no others.
func hostAddresses(fits func(netip.Addr) bool) []netip.Addr {
	interfaces, err := net.InterfaceAddrs()
	if err != nil {
		return nil
	}
	var usable, loopback []netip.Addr
	for _, address := range interfaces {
		prefix, err := netip.ParsePrefix(address.String())
		addr := prefix.Addr().Unmap()
		switch {
		case err != nil || !fits(addr) || addr.IsLinkLocalUnicast():
		case addr.IsLoopback():
			loopback = append(loopback, addr)
		default:
			usable = append(usable, addr)
		}
	}
	if len(usable) == 0 {
		return loopback
	}
	return usable
}
