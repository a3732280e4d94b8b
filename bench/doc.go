// Package bench measures what this server is for, at sizes that differ by orders of
// magnitude: making everything from nothing (build_test.go), the cost of a change, from an
// Update to the published View (update_test.go), and of a lookup (lookup_test.go).
// fixture_test.go makes the data, names_test.go draws what is asked for and what changes.
// results.md has figures with the machine that they came from; ratios inside of one run are
// what counts.
//
// Folders beside it measure whole programs: peers runs this server next to others, echo is
// a bare loop, live a server whose data change, data the mesh that all of them serve, and
// stats what is computed from samples.
package bench
