// Package e2e is the product's end-to-end tests: its built binary beside real Kubernetes
// API servers and a real CoreDNS, asked by a real client. README.md says how to run them,
// package harness how they are set up.
//
// Each test file is one promise: clusters_test.go the names of two clusters,
// forward_test.go a CoreDNS in front, faults_test.go API servers that die or are never
// there, access_test.go the rights that it needs there, latency_test.go the way from an API call to the answer, contexts_test.go a start
// without a configuration. main_test.go has what they share, harness_test.go proves the
// set-up itself without the product.
package e2e
