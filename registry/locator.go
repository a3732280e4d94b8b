package registry

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/meshdns/meshdns/names"
	"github.com/meshdns/meshdns/sources"
)

// locator checks b.Locator by b.Type and fills in what it says; at is the backend's path,
// owner the name of its document.
func (c *checker) locator(at string, owner names.Name, b *Backend) {
	if b.Type == "" {
		c.errorf(at+".type", "missing: want one of %s", backendTypes())
		return
	}
	if b.Locator == "" {
		c.errorf(at+".locator", "missing")
		return
	}
	var err error
	switch b.Type {
	case Kubernetes:
		err = c.kubernetes(at, b)
	case DNS:
		if err = b.setHost(owner); err == nil {
			c.ownZone(at, b)
		}
	case Static:
		err = c.addresses(at, b)
	case Azure, AWS, GCP, Consul:
		if err = checkCloud(b.Type, b.Locator); err == nil {
			c.warnf(at+".type", "not yet effective: answers SERVFAIL until its backend is built in")
		}
	default:
		c.errorf(at+".type", "unknown type %q: want one of %s", b.Type, backendTypes())
	}
	if err != nil {
		c.errorf(at+".locator", "%v", err)
	}
}

// ownZone warns of a host in a zone of this server that is not resolved inside of it: the
// upstreams are asked for it, and most likely don't know it.
func (c *checker) ownZone(at string, b *Backend) {
	for _, zone := range append([]names.Name{c.opts.Mesh}, c.opts.Zones...) {
		if why := c.askedUpstream(zone, b.Host); why != "" {
			c.warnf(at+".locator", "%s is in %s, %s: it is asked from the upstreams", b.Locator, zone, why)
			return
		}
	}
}

// askedUpstream says why a host in a zone of this server is not resolved inside of it; ""
// when it is, or is elsewhere.
func (c *checker) askedUpstream(zone, host names.Name) string {
	if !host.IsAtOrBelow(zone) {
		return ""
	}
	if slices.Contains(c.opts.Unserved, zone) {
		return "a zone that is not served yet"
	}
	for _, label := range []string{"dns", "dns-version"} {
		if own, err := zone.Prepend(label); err == nil && host.IsAtOrBelow(own) {
			return "but one of the server's own names, which no registered name can lead to"
		}
	}
	return ""
}

func backendTypes() string {
	return strings.Join([]string{string(Kubernetes), string(DNS), string(Azure), string(AWS), string(GCP), string(Consul), string(Static)}, ", ")
}

// kubernetes reads namespace/name or name.namespace.svc.cluster.<id>. The latter names
// the cluster too; where the cluster field speaks as well, both must say the same.
func (c *checker) kubernetes(at string, b *Backend) error {
	namespace, service, cluster, err := parseKubernetes(names.Lower(b.Locator))
	if err != nil {
		return err
	}
	b.Namespace, b.Service = namespace, service
	if cluster == "" {
		return nil
	}
	said := c.doc.Text(at+".cluster") != ""
	same := b.Cluster == cluster || b.Cluster == LocalCluster && c.opts.Site == cluster
	if said && !same {
		return fmt.Errorf("%q names the cluster %q, but the cluster field says %q", b.Locator, cluster, c.doc.Text(at+".cluster"))
	}
	b.Cluster = cluster
	return nil
}

// parseKubernetes reads a lower-case locator. cluster is "" when it does not name one:
// cluster.local is what each cluster calls itself.
func parseKubernetes(s string) (namespace, service, cluster string, err error) {
	namespace, service, ok := strings.Cut(s, "/")
	if !ok {
		service, namespace, cluster, err = parseKubernetesName(strings.TrimSuffix(s, "."))
		if err != nil {
			return "", "", "", err
		}
	}
	for _, part := range []struct{ what, name string }{{"namespace", namespace}, {"service name", service}} {
		if !names.IsHostLabel(part.name) {
			return "", "", "", fmt.Errorf("%q: %s %q: want letters, digits and inner hyphens", s, part.what, part.name)
		}
	}
	return namespace, service, cluster, nil
}

func parseKubernetesName(s string) (service, namespace, cluster string, err error) {
	parts := strings.SplitN(s, ".", 5)
	if len(parts) < 5 || parts[2] != "svc" || parts[3] != "cluster" {
		return "", "", "", fmt.Errorf("%q: want namespace/name or name.namespace.svc.cluster.<cluster>", s)
	}
	switch cluster = parts[4]; {
	case cluster == "local":
		cluster = ""
	case cluster == "global":
		cluster = AllClusters
	case !isSubdomain(cluster):
		return "", "", "", fmt.Errorf("%q: cluster %q: want a DNS subdomain", s, cluster)
	}
	return parts[0], parts[1], cluster, nil
}

// setHost reads the locator of a DNS backend: a host name, or _service._proto.host.
func (b *Backend) setHost(owner names.Name) error {
	if _, err := netip.ParseAddr(strings.Trim(b.Locator, "[]")); err == nil {
		return fmt.Errorf("%q is an address: want a host name, or type %s", b.Locator, Static)
	}
	host, err := names.Parse(b.Locator)
	if err != nil {
		return err
	}
	labels := host.Labels()
	if err := checkHostLabels(labels); err != nil {
		return fmt.Errorf("%q: %w", b.Locator, err)
	}
	b.Host = host
	b.SRV = len(labels) > 2 && labels[0][0] == '_' && labels[1][0] == '_'
	target := host
	if b.SRV {
		var port sources.Port
		if target, port = b.Target(); port.Protocol.Label() != labels[1] {
			return fmt.Errorf("%q: protocol %q: want _tcp, _udp or _sctp", b.Locator, labels[1])
		}
	}
	if target == owner {
		return fmt.Errorf("%q is the registered name itself: it would be resolved by resolving it", b.Locator)
	}
	return nil
}

func checkHostLabels(labels []string) error {
	if len(labels) == 0 {
		return errors.New("want a host name")
	}
	for _, label := range labels {
		if !names.IsHostLabel(strings.ReplaceAll(label, "_", "x")) {
			return fmt.Errorf("label %q: want letters, digits, hyphens and underscores, no hyphen at an end", label)
		}
	}
	if last := labels[len(labels)-1]; madeOf(last, "0123456789") {
		return fmt.Errorf("no host name ends in a number (%s)", last)
	}
	return nil
}

// addresses reads the locator of a Static backend: addresses separated by commas.
func (c *checker) addresses(at string, b *Backend) error {
	var errs []error
	for text := range strings.SplitSeq(b.Locator, ",") {
		text = strings.TrimSpace(text)
		addr, err := parseAddress(text)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if slices.Contains(b.Addresses, addr) {
			c.warnf(at+".locator", "address %s is given twice", addr)
			continue
		}
		b.Addresses = append(b.Addresses, addr)
	}
	if len(errs) == 0 {
		return nil
	}
	for _, err := range errs[1:] { // the caller reports the first
		c.errorf(at+".locator", "%v", err)
	}
	return errs[0]
}

func parseAddress(text string) (netip.Addr, error) {
	bare, bracketed := strings.CutPrefix(text, "[")
	if bracketed {
		bare = strings.TrimSuffix(bare, "]")
	}
	addr, err := netip.ParseAddr(bare)
	addr = addr.Unmap()
	switch {
	case text == "":
		return addr, errors.New("an empty address: one comma too many")
	case err != nil && isAddrPort(text):
		return addr, fmt.Errorf("address %q has a port: give it in the field port", text)
	case err != nil || bracketed && (!strings.HasSuffix(text, "]") || !strings.Contains(bare, ":")):
		return addr, fmt.Errorf("%q is no IP address", text)
	case addr.Zone() != "":
		return addr, fmt.Errorf("address %q has a zone, which DNS cannot carry", text)
	case addr.IsUnspecified() || addr.IsMulticast() || addr == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return addr, fmt.Errorf("address %q is no single host's", text)
	}
	return addr, nil
}

func isAddrPort(text string) bool {
	_, err := netip.ParseAddrPort(text)
	return err == nil
}
