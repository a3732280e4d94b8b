package kubernetes

import (
	"strings"
	"sync"

	"github.com/meshdns/meshdns/sources"
)

// maxInterned bounds one generation of an interner, so that names which come and go (nodes
// above all) cannot fill the memory.
const maxInterned = 32 << 10

// interner keeps one copy of what repeats over a cluster: zones, nodes, port names, lists
// of ports. It is safe for concurrent use.
type interner struct {
	mu      sync.Mutex
	strings generations[string]
	ports   generations[[]sources.Port]
	scratch []byte // of portsKey
}

// text is s, in the copy that all equal texts share.
func (n *interner) text(s string) string {
	if s == "" {
		return ""
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if shared, ok := n.strings.find(s); ok {
		return shared
	}
	s = strings.Clone(s)
	n.strings.add(s, s)
	return s
}

// portList is ports, in the copy that all equal lists share. Their names must be interned.
func (n *interner) portList(ports []sources.Port) []sources.Port {
	if len(ports) == 0 {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.scratch = appendPorts(n.scratch[:0], ports)
	if shared, ok := n.ports.find(string(n.scratch)); ok {
		return shared
	}
	n.ports.add(string(n.scratch), ports)
	return ports
}

// appendPorts writes ports so that equal lists, and only they, have equal bytes.
func appendPorts(b []byte, ports []sources.Port) []byte {
	for _, p := range ports {
		b = append(b, byte(len(p.Name)>>8), byte(len(p.Name)))
		b = append(b, p.Name...)
		b = append(b, byte(p.Protocol), byte(p.Number>>8), byte(p.Number))
	}
	return b
}

// generations is a bounded map: when the current generation is full, it becomes the
// previous one, and what is not found again in it is forgotten with it.
type generations[V any] struct {
	current, previous map[string]V
}

func (g *generations[V]) find(k string) (v V, ok bool) {
	if v, ok = g.current[k]; ok {
		return v, true
	}
	if v, ok = g.previous[k]; ok {
		g.add(k, v)
	}
	return v, ok
}

func (g *generations[V]) add(k string, v V) {
	if g.current == nil || len(g.current) >= maxInterned {
		g.previous, g.current = g.current, map[string]V{}
	}
	g.current[k] = v
}
