package data

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Manifests writes the objects of all clusters below dir: a folder for each cluster, with
// a file for each namespace.
func (f Fleet) Manifests(dir string) error {
	for c := range f.Clusters {
		folder := filepath.Join(dir, f.Cluster(c))
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return fmt.Errorf("make the folder of a cluster: %w", err)
		}
		for n := range f.Namespaces() {
			path := filepath.Join(folder, fmt.Sprintf("team-%d.json", n))
			if err := WriteFile(path, func(w io.Writer) error { return f.namespace(w, c, n) }); err != nil {
				return err
			}
		}
	}
	return nil
}

// namespace writes namespace n of cluster c as a List, as "kubectl get -o json" prints it.
func (f Fleet) namespace(w io.Writer, c, n int) error {
	b := bufio.NewWriter(w)
	fmt.Fprint(b, `{"apiVersion":"v1","kind":"List","items":[`)
	for i := n * PerNamespace; i < min(f.Services, (n+1)*PerNamespace); i++ {
		if i > n*PerNamespace {
			b.WriteByte(',')
		}
		f.service(b, i)
		f.slice(b, c, i)
	}
	fmt.Fprintln(b, "\n]}")
	return b.Flush()
}

func (f Fleet) service(w io.Writer, i int) {
	fmt.Fprintf(w, `
{"apiVersion":"v1","kind":"Service","metadata":{"namespace":%q,"name":%q,"labels":{"app":%[2]q}},`+
		`"spec":{"type":"ClusterIP","clusterIP":%[3]q,"clusterIPs":[%[3]q],"selector":{"app":%[2]q},`+
		`"ports":[{"name":"http","protocol":"TCP","port":%[4]d,"targetPort":%[4]d}]}},`,
		f.Namespace(i), f.Service(i), f.clusterIP(i), Port)
}

func (f Fleet) slice(w io.Writer, c, i int) {
	fmt.Fprintf(w, `
{"apiVersion":"discovery.k8s.io/v1","kind":"EndpointSlice","metadata":{"namespace":%q,"name":"%[2]s-abcde",`+
		`"labels":{"kubernetes.io/service-name":%[2]q}},"addressType":"IPv4",`+
		`"ports":[{"name":"http","protocol":"TCP","port":%[3]d}],"endpoints":[`,
		f.Namespace(i), f.Service(i), Port)
	for e := range f.PerSlice {
		if e > 0 {
			fmt.Fprint(w, ",")
		}
		fmt.Fprintf(w, `{"addresses":[%q],"conditions":{"ready":true,"serving":true,"terminating":false},`+
			`"nodeName":"node-%d","targetRef":{"kind":"Pod","namespace":%q,"name":%q}}`,
			f.Address(c, i, e, 0), (i+e)%1000, f.Namespace(i), f.pod(i, e))
	}
	fmt.Fprint(w, "]}")
}
