// Package api holds the JSON that the admin API answers and that `-o json` prints. Its
// fields are a contract with programs outside of the project: fields may be added, never
// renamed or removed. Names have no final dot, types and rcodes are text, times are
// RFC 3339.
//
// resolver and zones fill these values, admin and cli print them.
package api

import "time"

// SourceState is how a source is doing.
type SourceState string

const (
	Syncing SourceState = "syncing" // no whole first list yet: what it holds is unknown
	Fresh   SourceState = "fresh"
	Stale   SourceState = "stale"  // failing; its last good data are still served
	Failed  SourceState = "failed" // failing for longer than its data may be kept
)

// Source is one row of /api/v1/sources, a bare list ordered by kind and name.
type Source struct {
	Name        string      `json:"name"`
	Kind        string      `json:"kind"`
	State       SourceState `json:"state"`
	Since       time.Time   `json:"since"` // when State was entered
	LastSuccess *time.Time  `json:"lastSuccess,omitempty"`
	LastError   string      `json:"lastError"`
	Services    int         `json:"services"`
	Endpoints   int         `json:"endpoints"`
	Skipped     int         `json:"skipped"` // bad objects or documents left out
	LastSkip    string      `json:"lastSkip,omitempty"`
	Refused     int         `json:"refused"` // endpoints outside mayServe or cidrs
}

// Services is a page of /api/v1/services.
type Services struct {
	Items []Service `json:"items"`
	Next  string    `json:"next"` // pass as ?after= for the next page; "" at the end
}

// Service is one name that is served.
type Service struct {
	Name      string   `json:"name"`
	Zone      string   `json:"zone"`
	Backends  []string `json:"backends"`
	Ready     int      `json:"ready"`
	Total     int      `json:"total"`
	Conflicts []string `json:"conflicts"`
}

// Explanation says why a name is answered as it is.
type Explanation struct {
	Name      string     `json:"name"`
	Type      string     `json:"type"`
	Rcode     string     `json:"rcode"`
	Zone      string     `json:"zone"` // "" outside of every own zone
	Steps     []string   `json:"steps"`
	Endpoints []Endpoint `json:"endpoints"`
}

// Endpoint is one address that could be in the answer.
type Endpoint struct {
	Address  string `json:"address"`
	Port     int    `json:"port"` // 0 when none is known
	Hostname string `json:"hostname"`
	Cluster  string `json:"cluster"`
	Backend  string `json:"backend"`
	// Via are the names of this server by which a DNS backend leads to the address, the
	// backend's own locator first; absent for others.
	Via      []string `json:"via,omitempty"`
	State    string   `json:"state"` // ready, terminating, notReady
	Weight   int      `json:"weight"`
	Included bool     `json:"included"`
	Reason   string   `json:"reason"`
}
