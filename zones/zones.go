// Package zones says which names exist and packs what they are answered with.
//
// A change's way: the resolver publishes a Snapshot and the names that it touches
// (publish.go: services; registered.go: registered names and alias targets) → each is
// selected and packed into an entry (pack.go collects, packwrite.go writes; packlarge.go is
// the way of very large services; entry.go is the layout) → an entry that differs from the
// old one is written into a chunk (store.go) and found by the next index (index.go), which
// shares all that did not change; what is left behind is moved together (compact.go) →
// counts keep the empty non-terminals (namespaces.go, registered.go; reverse.go for PTR) →
// zones that show a difference get their next serial (serial.go) → one atomic store of the
// View (view.go).
//
// A question's way: the longest zone (zone.go) → the entry by service, and inside of it
// port, host, site (lookup.go: what exists, NXDOMAIN or NODATA; unknown.go: what may exist
// where a source is silent, SERVFAIL) → an Answer that refers to packed bytes
// (answer.go) → records, in random order (write.go), with this moment's TTL (ttl.go).
//
// One entry holds all that is said of one service: the aggregate, and each cluster's own.
// Hosts, ports and glue are found inside of it, so that one change touches one entry.
//
// explain.go says in words what lookup.go does; list.go is the catalogue; export.go writes
// a zone as a zone file.
package zones
