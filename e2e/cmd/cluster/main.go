// Command cluster is a real Kubernetes API server, with etcd and without controllers, that
// holds the objects of a folder. It is for load tests outside of this module (bench/peers),
// so that they need neither its dependencies nor its ways of starting programs.
//
// With -tool it prints the path of a program (etcd, kube-apiserver, coredns), which it
// builds when there is none, and ends. Else it starts the server, makes the objects
// (apply.go), prints one JSON line with the kubeconfig's path, and stops everything when
// its standard input ends.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/meshdns/meshdns/e2e/harness"
)

// started is the line on standard output.
type started struct {
	Kubeconfig string  `json:"kubeconfig"`
	Objects    int     `json:"objects"`
	Seconds    float64 `json:"seconds"` // that making the objects took
}

func main() {
	tool := flag.String("tool", "", "print the path of this `program` and end")
	manifests := flag.String("manifests", "", "`folder` of JSON Lists of Services and EndpointSlices")
	flag.Parse()
	if err := run(*tool, *manifests); err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

func run(tool, manifests string) error {
	if tool == "" {
		return serve(context.Background(), manifests)
	}
	builder, err := harness.NewBuilder(os.Stderr)
	if err != nil {
		return err
	}
	path, err := builder.Tool(harness.Tool(tool))
	if err == nil {
		fmt.Println(path)
	}
	return err
}

func serve(ctx context.Context, manifests string) (err error) {
	env, err := harness.New(os.Stderr)
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := env.Close(); err == nil {
			err = closeErr
		}
	}()
	etcd, err := env.StartEtcd(ctx)
	if err != nil {
		return err
	}
	server, err := env.NewAPIServer("bench", etcd)
	if err != nil {
		return err
	}
	if err := server.Start(ctx); err != nil {
		return err
	}
	start := time.Now()
	objects, err := apply(ctx, server, manifests)
	if err != nil {
		return err
	}
	line := started{Kubeconfig: server.Kubeconfig, Objects: objects, Seconds: time.Since(start).Seconds()}
	if err := json.NewEncoder(os.Stdout).Encode(line); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}
