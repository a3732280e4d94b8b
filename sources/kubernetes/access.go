package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
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

// serviceAccountFolder is where a pod finds the files of its service account (Kubernetes,
// "Accessing the Kubernetes API from a Pod").
const serviceAccountFolder = "/var/run/secrets/kubernetes.io/serviceaccount"

// live reads a cluster from its API.
type live struct {
	cfg     Config
	timing  timing
	account string // folder of the service account
	status  *status
	table   *table
	convert *converter
	context string // of the kubeconfig: the one that was current at first
}

// run keeps a session with the API server, and begins a new one when what leads to it
// changes. What is held stays through all of them.
func (l *live) run(ctx context.Context) error {
	work, ctx := errgroup.WithContext(ctx)
	changed := make(chan struct{})
	work.Go(func() error {
		watcher := dirwatch.New(dirwatch.Config{Paths: l.paths(), Logger: l.cfg.Logger})
		return watcher.Run(ctx, func(dirwatch.Snapshot) {
			select {
			case changed <- struct{}{}:
			case <-ctx.Done():
			}
		})
	})
	work.Go(func() error {
		l.keepSession(ctx, changed)
		return nil
	})
	if err := work.Wait(); err != nil {
		return fmt.Errorf("cluster %s: %w", l.cfg.Name, err)
	}
	return nil
}

// keepSession renews the session when a file has changed. While one cannot be had, it
// tries again from time to time, since the files may name others.
func (l *live) keepSession(ctx context.Context, changed <-chan struct{}) {
	current := &session{}
	defer func() { current.close() }()
	var again <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-again:
		}
		next, err := l.renew(ctx, current)
		l.status.configured(err)
		current, again = next, nil
		if err != nil {
			again = time.After(l.timing.maxBackoff)
		}
	}
}

// renew returns a session by what the files say now: the current one if they say nothing
// new, or nothing usable, which is an error.
func (l *live) renew(ctx context.Context, current *session) (*session, error) {
	access, err := l.load()
	if err != nil {
		return current, fmt.Errorf("access to the cluster: %w", err)
	}
	if current.access != nil && reflect.DeepEqual(access, current.access) {
		return current, nil
	}
	next, err := l.open(ctx, access)
	if err != nil {
		return current, fmt.Errorf("access to the cluster: %w", err)
	}
	current.close()
	next.start()
	return next, nil
}

// paths are the files that the access depends on.
func (l *live) paths() []string {
	if l.cfg.InCluster {
		return []string{filepath.Join(l.account, "token"), filepath.Join(l.account, "ca.crt")}
	}
	return slices.DeleteFunc(filepath.SplitList(l.cfg.Kubeconfig), func(path string) bool { return path == "" })
}

func (l *live) load() (*rest.Config, error) {
	if l.cfg.InCluster {
		return loadInCluster(l.account)
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

// loadInCluster is the access of a pod, by the files of its service account in folder.
// client-go reads the token's file again by itself; the authority's certificates are part
// of the result, so that new ones are seen as a change.
func loadInCluster(folder string) (*rest.Config, error) {
	host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		return nil, rest.ErrNotInCluster
	}
	ca, err := os.ReadFile(filepath.Join(folder, "ca.crt"))
	if err != nil {
		return nil, err
	}
	return &rest.Config{
		Host:            "https://" + net.JoinHostPort(host, port),
		TLSClientConfig: rest.TLSClientConfig{CAData: ca},
		BearerTokenFile: filepath.Join(folder, "token"),
	}, nil
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
