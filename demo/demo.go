// Package demo holds the mesh that `meshdns serve --demo` serves: the example of the
// discussions that the project comes from, as documents that a reader can learn from.
//
//	mesh/       a configuration, the Kubernetes objects of two clusters, registry documents
//	elsewhere/  a second, smaller configuration: the server that foo.mesh is looked up at
//
// cli writes them to a temporary folder and serves them like any others, so that they can
// be edited while the demo runs.
package demo

import (
	"embed"
	"fmt"
	"os"
)

//go:embed mesh elsewhere
var files embed.FS

// Paths of the two configurations below the folder of Write, with slashes.
const (
	Mesh      = "mesh/meshdns.yaml"
	Elsewhere = "elsewhere/meshdns.yaml"
)

// Write puts the documents into dir, which must exist and not hold them yet.
func Write(dir string) error {
	if err := os.CopyFS(dir, files); err != nil {
		return fmt.Errorf("writing the demo's documents: %w", err)
	}
	return nil
}

// Question is something to try.
type Question struct {
	Name, Type string
	About      string // what the answer shows
}

// Questions are the ones to print.
func Questions() []Question {
	return []Question{
		{"my-svc.my-ns.svc.cluster.global", "A", "one service of two clusters: the two ready endpoints of each"},
		{"_http._tcp.my-svc.my-ns.svc.cluster.global", "SRV", "the same with ports, each target a name of its own"},
		{"my-svc-0.clusterx.my-svc.my-ns.svc.cluster.global", "A", "one of those targets"},
		{"my-svc.my-ns.svc.cluster.clustery", "A", "the service in one cluster"},
		{"website-v1.my-ns.svc.cluster.clusterx", "A", "a service that only clusterx has"},
		{"website-v1.my-ns.svc.cluster.clustery", "A", "so this does not exist: NXDOMAIN"},
		{"website-v2.my-ns.svc.cluster.clustery", "A", "a service that only clustery has"},
		{"foo.mesh", "A", "a registered name that stands on another DNS name"},
		{"bar.mesh", "A", "one that stands on a service in one cluster"},
		{"baz.mesh", "SRV", "one that stands on virtual machines, port 7654"},
		{"mixed.mesh", "A", "pods of both clusters and virtual machines under one name"},
	}
}
