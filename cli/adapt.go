package cli

import (
	"context"
	"io"
	"slices"
	"time"

	"github.com/meshdns/meshdns/admin"
	"github.com/meshdns/meshdns/api"
	"github.com/meshdns/meshdns/names"
	"github.com/meshdns/meshdns/sources/dns"
	"github.com/meshdns/meshdns/sources/files"
	"github.com/meshdns/meshdns/zones"
)

// explainTime is how long an explanation waits for a locator that was never asked, as
// long as a question would.
const explainTime = 1500 * time.Millisecond

// shownMesh is a mesh as admin and metrics want to see it.
type shownMesh struct{ *mesh }

// Sources implements admin.Sources and metrics.Sources.
func (m shownMesh) Sources() []api.Source {
	list := m.resolver.Snapshot().Sources()
	return slices.DeleteFunc(list, func(s api.Source) bool {
		unasked := s.Name == files.Name && !m.registry.Load() // runs, but nobody asked for it
		nameless := s.Kind == ""                              // not a source: the key of DNS locators
		return unasked || nameless
	})
}

// EndpointCounts implements metrics.Sources.
func (m shownMesh) EndpointCounts(each func(cluster, state string, n int)) {
	m.resolver.Snapshot().EndpointCounts(each)
}

// Services implements admin.Catalogue.
func (m shownMesh) Services(q admin.Query) api.Services {
	return m.zones.View().Services(zones.ListQuery(q))
}

// Service implements admin.Catalogue.
func (m shownMesh) Service(name string) (api.Service, bool) {
	return m.zones.View().Service(name)
}

// Zones implements admin.Zones.
func (m shownMesh) Zones() []admin.Zone {
	var list []admin.Zone
	for _, z := range m.zones.View().Zones() {
		list = append(list, admin.Zone{Name: z.Name.Text(), Serial: z.Serial})
	}
	return list
}

// Export implements admin.Zones.
func (m shownMesh) Export(w io.Writer, zone string) (found bool, err error) {
	name, err := names.Parse(zone)
	if err != nil {
		return false, nil
	}
	return m.zones.View().Export(w, name)
}

// Explain implements admin.Explainer.
func (m shownMesh) Explain(ctx context.Context, q admin.Question) (api.Explanation, error) {
	name, err := names.Parse(q.Name)
	if err != nil {
		return api.Explanation{}, &admin.InputError{Field: "name", Message: err.Error()}
	}
	typ, err := dns.TypeFromText(q.Type)
	if err != nil {
		return api.Explanation{}, &admin.InputError{Field: "type", Message: err.Error()}
	}
	if unasked := m.resolver.Snapshot().Unasked(name); len(unasked) > 0 {
		ctx, cancel := context.WithTimeout(ctx, explainTime)
		defer cancel()
		if err := m.resolver.Fetch(ctx, unasked); err != nil {
			m.log.Debug("explaining without an answer of the upstreams", "name", q.Name, "error", err)
		}
	}
	return m.zones.View().Explain(name, typ), nil
}

// waiting is what readiness waits for: until the grace ends, every source's first list.
func (m shownMesh) waiting() (waiting []string, ready bool) {
	s := m.resolver.Snapshot()
	waiting = s.Waiting()
	return waiting, len(waiting) == 0 || s.GraceOver
}
