package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/meshdns/meshdns/dirwatch"
)

// Limits on what one cluster's requests may come to: lists are read page after page, so
// that this is 25,000 objects a second, and a server in trouble is spared by the back-off.
const (
	requestsPerSecond = 50
	requestBurst      = 100
)

// inClusterFolder is where a pod finds its service account's files (the API's own
// constant in rest.InClusterConfig).
const inClusterFolder = "/var/run/secrets/kubernetes.io/serviceaccount"

// live reads a cluster from its API.
type live struct {
	cfg     Config
	timing  timing
	status  *status
	table   *table
	convert *converter
	context string // of the kubeconfig: the one that was current at first
}

// run keeps a session with the API server, and begins a new one when what leads to it
// changes. What is held stays through all of them.
func (l *live) run(ctx context.Context) error {
	snapshots := make(chan struct{})
	watchCtx, stop := context.WithCancel(ctx)
	watchEnded := make(chan error, 1)
	go func() {
		watcher := dirwatch.New(dirwatch.Config{Paths: l.paths(), Logger: l.cfg.Logger})
		watchEnded <- watcher.Run(watchCtx, func(dirwatch.Snapshot) {
			select {
			case snapshots <- struct{}{}:
			case <-watchCtx.Done():
			}
		})
	}()
	defer func() { stop(); <-watchEnded }()

	current := &session{}
	defer func() { current.close() }()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-watchEnded:
			watchEnded <- nil
			if err != nil {
				return fmt.Errorf("cluster %s: %w", l.cfg.Name, err)
			}
			return nil
		case <-snapshots:
			current = l.renew(ctx, current)
		}
	}
}

// renew returns a session by what the files say now: the current one if they say nothing
// new, or nothing usable.
func (l *live) renew(ctx context.Context, current *session) *session {
	cfg, err := l.load()
	if err != nil {
		l.status.configured(fmt.Errorf("access to the cluster: %w", err))
		return current
	}
	if current.access != nil && reflect.DeepEqual(cfg, current.access) {
		l.status.configured(nil)
		return current
	}
	next, err := l.open(ctx, cfg)
	if err != nil {
		l.status.configured(fmt.Errorf("access to the cluster: %w", err))
		return current
	}
	current.close()
	l.status.configured(nil)
	next.start()
	return next
}

// paths are the files that the access depends on.
func (l *live) paths() []string {
	if l.cfg.InCluster {
		return []string{filepath.Join(inClusterFolder, "token"), filepath.Join(inClusterFolder, "ca.crt")}
	}
	return filepath.SplitList(l.cfg.Kubeconfig)
}

func (l *live) load() (*rest.Config, error) {
	if l.cfg.InCluster {
		return loadInCluster()
	}
	raw, err := loadKubeconfig(l.cfg.Kubeconfig)
	if err != nil {
		return nil, err
	}
	if l.context == "" {
		if l.context = l.cfg.Context; l.context == "" {
			l.context = raw.CurrentContext
		}
	}
	return contextConfig(raw, l.context)
}

// loadInCluster is the access of a pod. client-go reads the token's file again by itself;
// the authority's certificates are part of the result, so that new ones are seen as a
// change.
func loadInCluster() (*rest.Config, error) {
	cfg, err := rest.InClusterConfig()
	if err != nil {
		return nil, err
	}
	if cfg.CAData, err = os.ReadFile(filepath.Join(inClusterFolder, "ca.crt")); err != nil {
		return nil, err
	}
	cfg.CAFile, cfg.BearerToken = "", ""
	return cfg, nil
}

// loadKubeconfig merges the files of a list in the form of KUBECONFIG, as kubectl does. It
// changes nothing on disk.
func loadKubeconfig(list string) (*clientcmdapi.Config, error) {
	files := filepath.SplitList(list)
	rules := &clientcmd.ClientConfigLoadingRules{Precedence: files}
	if len(files) == 1 {
		rules.ExplicitPath = files[0]
	}
	raw, err := rules.Load()
	if err != nil {
		return nil, fmt.Errorf("kubeconfig %s: %w", list, err)
	}
	if len(raw.Contexts) == 0 {
		return nil, fmt.Errorf("kubeconfig %s: no contexts in it", list)
	}
	return raw, nil
}

// contextConfig is the access by one context. Programs that get credentials are never
// asked to talk to a person: there is none.
func contextConfig(raw *clientcmdapi.Config, name string) (*rest.Config, error) {
	if name == "" {
		return nil, errors.New("kubeconfig: no context given, and none is current")
	}
	overrides := &clientcmd.ConfigOverrides{CurrentContext: name}
	cfg, err := clientcmd.NewNonInteractiveClientConfig(*raw, name, overrides, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("kubeconfig context %q: %w", name, err)
	}
	if cfg.ExecProvider != nil {
		cfg.ExecProvider.StdinUnavailable = true
		cfg.ExecProvider.StdinUnavailableMessage = "it runs in a server"
	}
	return cfg, nil
}
