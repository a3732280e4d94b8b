package harness

import (
	"fmt"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// Context is one context of a kubeconfig, with a cluster and a user of the same name.
type Context struct {
	Name   string
	Server string // base URL
	CA     []byte // PEM
	Token  string
}

// WriteKubeconfig writes contexts into a file; the first is the current one.
func WriteKubeconfig(path string, contexts ...Context) error {
	config := api.NewConfig()
	for _, c := range contexts {
		config.Clusters[c.Name] = &api.Cluster{Server: c.Server, CertificateAuthorityData: c.CA}
		config.AuthInfos[c.Name] = &api.AuthInfo{Token: c.Token}
		config.Contexts[c.Name] = &api.Context{Cluster: c.Name, AuthInfo: c.Name}
	}
	if len(contexts) > 0 {
		config.CurrentContext = contexts[0].Name
	}
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		return fmt.Errorf("write kubeconfig %s: %w", path, err)
	}
	return nil
}
