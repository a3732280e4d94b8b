package kubernetes

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/homedir"
)

// Context is one context of a kubeconfig.
type Context struct {
	Name   string
	Server string // the API server's URL; "" when the context names no known cluster
}

// ErrNoKubeconfig says that there is no kubeconfig where kubectl would look for one.
var ErrNoKubeconfig = errors.New("no kubeconfig: KUBECONFIG is not set and ~/.kube/config does not exist")

// Contexts lists the contexts of a kubeconfig by name, and says which one is current.
// kubeconfigPath "" means the one that kubectl would use: KUBECONFIG, which may name
// several files, else ~/.kube/config. path is what was read, fit for Config.Kubeconfig.
// The error is ErrNoKubeconfig when no path was given and there is none.
func Contexts(kubeconfigPath string) (contexts []Context, current, path string, err error) {
	if path = kubeconfigPath; path == "" {
		if path = defaultKubeconfig(); path == "" {
			return nil, "", "", ErrNoKubeconfig
		}
	}
	raw, err := loadKubeconfig(path)
	if err != nil {
		return nil, "", path, err
	}
	for name, c := range raw.Contexts {
		context := Context{Name: name}
		if cluster := raw.Clusters[c.Cluster]; cluster != nil {
			context.Server = cluster.Server
		}
		contexts = append(contexts, context)
	}
	slices.SortFunc(contexts, func(a, b Context) int { return strings.Compare(a.Name, b.Name) })
	return contexts, raw.CurrentContext, path, nil
}

// defaultKubeconfig is the list of files that kubectl would read, "" when there are none.
func defaultKubeconfig() string {
	if list := os.Getenv(clientcmd.RecommendedConfigPathEnvVar); list != "" {
		return list
	}
	path := filepath.Join(homedir.HomeDir(), clientcmd.RecommendedHomeDir, clientcmd.RecommendedFileName)
	if _, err := os.Stat(path); err != nil {
		return ""
	}
	return path
}
