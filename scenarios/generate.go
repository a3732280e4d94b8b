package scenarios

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

// endpoints does "endpoints FILE NAMESPACE/SERVICE count=N from=ADDRESS [per-slice=100]
// [port=http:8080] [hostname=PREFIX]": a headless Service and its EndpointSlices with N
// ready endpoints at successive addresses, written into FILE.
func (r *run) endpoints(_ context.Context, words []string, _ []Line) error {
	set, rest, err := parseSettings(words, "count", "from", "per-slice", "port", "hostname")
	if err != nil {
		return err
	}
	if len(rest) != 2 {
		return errors.New("want: endpoints FILE NAMESPACE/SERVICE count=N from=ADDRESS …")
	}
	g, err := newGenerator(rest[1], set)
	if err != nil {
		return err
	}
	return r.write(rest[0], []byte(g.manifests()))
}

// generator makes the manifests of one large service.
type generator struct {
	namespace, service string
	count, perSlice    int
	from               netip.Addr
	portName, port     string
	hostname           string
}

func newGenerator(service string, set settings) (g generator, err error) {
	var ok bool
	if g.namespace, g.service, ok = strings.Cut(service, "/"); !ok {
		return g, fmt.Errorf("service %q: want NAMESPACE/SERVICE", service)
	}
	if g.count, err = set.number("count", 0); err != nil {
		return g, err
	}
	if g.perSlice, err = set.number("per-slice", 100); err != nil {
		return g, err
	}
	if g.from, err = netip.ParseAddr(set["from"]); err != nil {
		return g, err
	}
	g.portName, g.port = "http", "8080"
	if set["port"] != "" {
		g.portName, g.port, _ = strings.Cut(set["port"], ":")
	}
	g.hostname = set["hostname"]
	return g, nil
}

func (g generator) manifests() string {
	var b strings.Builder
	fmt.Fprintf(&b, "apiVersion: v1\nkind: Service\nmetadata: {name: %s, namespace: %s}\n"+
		"spec: {type: ClusterIP, clusterIP: None, ports: [{name: %s, port: %s, protocol: TCP}]}\n",
		g.service, g.namespace, g.portName, g.port)
	addr := g.from
	for first := 0; first < g.count; first += g.perSlice {
		addr = g.slice(&b, first, min(first+g.perSlice, g.count), addr)
	}
	return b.String()
}

// slice writes one EndpointSlice with the endpoints first to end-1, the first of them at
// addr, and returns the address after the last one's.
func (g generator) slice(b *strings.Builder, first, end int, addr netip.Addr) netip.Addr {
	family := "IPv4"
	if addr.Is6() {
		family = "IPv6"
	}
	fmt.Fprintf(b, "---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\n"+
		"metadata: {name: %s-%d, namespace: %s, labels: {kubernetes.io/service-name: %s}}\n"+
		"addressType: %s\nports: [{name: %s, port: %s, protocol: TCP}]\nendpoints:\n",
		g.service, first/g.perSlice, g.namespace, g.service, family, g.portName, g.port)
	for i := first; i < end; i++ {
		host := ""
		if g.hostname != "" {
			host = fmt.Sprintf(", hostname: %s%d", g.hostname, i)
		}
		fmt.Fprintf(b, "- {addresses: [\"%s\"], conditions: {ready: true}%s}\n", addr, host)
		addr = addr.Next()
	}
	return addr
}
