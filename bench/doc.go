// Package bench measures what this server is for: the cost of a change, from an Update to
// the published View (update_test.go), and of a lookup (lookup_test.go), at sizes that
// differ by orders of magnitude. fixture_test.go makes the data. results.md has figures
// with the machine that they came from; ratios inside of one run are what counts.
package bench
