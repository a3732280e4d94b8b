package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshdns/meshdns/e2e/harness"
)

// atOnce requests keep the API server and etcd busy on a few cores.
const atOnce = 16

// apply makes the objects of all files of a folder, and the namespaces that they are in.
func apply(ctx context.Context, server *harness.APIServer, folder string) (objects int, err error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err != nil || len(files) == 0 {
		return 0, fmt.Errorf("no JSON files in %q: %v", folder, err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	queue := make(chan string)
	var made atomic.Int64
	var workers sync.WaitGroup
	for range atOnce {
		workers.Go(func() {
			for path := range queue {
				n, err := applyFile(ctx, server, path)
				made.Add(int64(n))
				if err != nil {
					cancel(err)
				}
			}
		})
	}
	for _, path := range files {
		queue <- path
	}
	close(queue)
	workers.Wait()
	return int(made.Load()), context.Cause(ctx)
}

// applyFile makes the objects of one file, in their order.
func applyFile(ctx context.Context, server *harness.APIServer, path string) (objects int, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	var list struct {
		Items []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return 0, fmt.Errorf("%s: %w", path, err)
	}
	for i, item := range list.Items {
		if err := create(ctx, server, item); err != nil {
			return i, fmt.Errorf("%s: item %d: %w", path, i, err)
		}
	}
	return len(list.Items), nil
}

// create makes one object. A namespace is made with the first service in it.
func create(ctx context.Context, server *harness.APIServer, item json.RawMessage) error {
	var kind metav1.TypeMeta
	if err := json.Unmarshal(item, &kind); err != nil {
		return err
	}
	switch kind.Kind {
	case "Service":
		return createService(ctx, server, item)
	case "EndpointSlice":
		var slice discoveryv1.EndpointSlice
		if err := json.Unmarshal(item, &slice); err != nil {
			return err
		}
		_, err := server.Client.DiscoveryV1().EndpointSlices(slice.Namespace).Create(ctx, &slice, metav1.CreateOptions{})
		return err
	}
	return fmt.Errorf("kind %q is neither Service nor EndpointSlice", kind.Kind)
}

func createService(ctx context.Context, server *harness.APIServer, item json.RawMessage) error {
	var service corev1.Service
	if err := json.Unmarshal(item, &service); err != nil {
		return err
	}
	services := server.Client.CoreV1().Services(service.Namespace)
	_, err := services.Create(ctx, &service, metav1.CreateOptions{})
	if isNoNamespace(err, service.Namespace) {
		if err := server.PutNamespace(ctx, service.Namespace); err != nil {
			return err
		}
		_, err = services.Create(ctx, &service, metav1.CreateOptions{})
	}
	return err
}

// isNoNamespace tells whether an object was refused since its namespace is not there.
func isNoNamespace(err error, namespace string) bool {
	var status apierrors.APIStatus
	return apierrors.IsNotFound(err) && errors.As(err, &status) &&
		status.Status().Details != nil && status.Status().Details.Kind == "namespaces" && status.Status().Details.Name == namespace
}
