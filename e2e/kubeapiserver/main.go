// Command kubeapiserver is the real Kubernetes API server, built from its released module so
// that the end-to-end tests need no cluster and no download of binaries. It is a module of
// its own: the replace lines that k8s.io/kubernetes needs would otherwise reach the product.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

func main() {
	os.Exit(cli.Run(app.NewAPIServerCommand()))
}
