package harness

import (
	"context"
	"crypto/rand"
	"fmt"
	"path/filepath"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

const (
	// apiServerWithin bounds the start of an API server: 5 s alone on two idle cores, but
	// several may start at once beside a build.
	apiServerWithin = 120 * time.Second

	// clusterIPRanges are the same in all clusters, as the defaults of installers are: a
	// ClusterIP means nothing outside of its cluster.
	clusterIPRanges = "10.96.0.0/16,fd00:96::/112"

	// advertised is where the API server says it is. It has to be no loopback address and
	// is never dialled; without it the server needs a default route to choose from.
	advertised = "192.0.2.254"
)

// APIServer is one Kubernetes cluster: an API server without any controller. Its methods
// are for one goroutine, Client is for all.
type APIServer struct {
	Name       string
	Port       int
	Kubeconfig string // path; written before the server first starts
	Client     kubernetes.Interface

	env     *Env
	dir     string
	etcd    *EtcdServer
	pki     *pki
	token   string   // of admin, who may do everything
	reader  string   // token of Reader
	process *Process // nil before the first start
}

// NewAPIServer makes all files of a cluster and chooses its port; Start starts it.
func (e *Env) NewAPIServer(name string, etcd *EtcdServer) (*APIServer, error) {
	dir, err := e.Folder("cluster-" + name)
	if err != nil {
		return nil, err
	}
	port, err := FreePort()
	if err != nil {
		return nil, err
	}
	pki, err := newPKI(dir)
	if err != nil {
		return nil, err
	}
	s := &APIServer{Name: name, Port: port, env: e, dir: dir, etcd: etcd, pki: pki, token: rand.Text(), reader: rand.Text()}
	s.Kubeconfig = filepath.Join(dir, "kubeconfig")
	if err := WriteKubeconfig(s.Kubeconfig, s.Context(name)); err != nil {
		return nil, err
	}
	s.Client, err = kubernetes.NewForConfig(&rest.Config{
		Host:            s.url(port),
		BearerToken:     s.token,
		TLSClientConfig: rest.TLSClientConfig{CAData: pki.certPEM},
		QPS:             -1, // no limit on this side
		Timeout:         30 * time.Second,
	})
	if err != nil {
		return nil, fmt.Errorf("client of %s: %w", name, err)
	}
	return s, nil
}

// Context is a kubeconfig context for the administrator of this cluster.
func (s *APIServer) Context(name string) Context {
	return Context{Name: name, Server: s.url(s.Port), CA: s.pki.certPEM, Token: s.token}
}

// Reader is a user who may do nothing until a test grants something.
const Reader = "reader"

// ReaderContext is Context for Reader.
func (s *APIServer) ReaderContext(name string) Context {
	c := s.Context(name)
	c.Token = s.reader
	return c
}

// ContextThrough is Context by way of a proxy in front of this cluster.
func (s *APIServer) ContextThrough(p *Proxy, name string) Context {
	c := s.Context(name)
	c.Server = s.url(p.Port)
	return c
}

func (s *APIServer) url(port int) string { return "https://" + Loopback(port) }

// Start runs the server and waits until it is ready. After Kill it starts again on the
// same port with the same data.
func (s *APIServer) Start(ctx context.Context) error {
	path, err := s.env.Binary(KubeAPIServer)
	if err != nil {
		return err
	}
	users := fmt.Sprintf("%s,admin,admin,system:masters\n%s,%s,%s\n", s.token, s.reader, Reader, Reader)
	tokens, err := WriteFile(s.dir, "tokens.csv", users)
	if err != nil {
		return err
	}
	s.process, err = s.env.start(command{name: "kube-apiserver-" + s.Name, path: path, args: s.flags(tokens)})
	if err != nil {
		return err
	}
	s.process.killOnStop = true
	return s.process.await(ctx, apiServerWithin, func() error { return s.ready(ctx) })
}

// flags are the API server's. Admission by service account is off, since no controller
// makes service accounts.
func (s *APIServer) flags(tokens string) []string {
	return []string{
		"--etcd-servers=" + s.etcd.URL,
		"--etcd-prefix=/" + filepath.Base(s.dir), // its own, also beside a cluster of the same name
		"--bind-address=127.0.0.1",
		"--advertise-address=" + advertised,
		"--secure-port=" + strconv.Itoa(s.Port),
		"--cert-dir=" + s.dir,
		"--tls-cert-file=" + s.pki.cert,
		"--tls-private-key-file=" + s.pki.key,
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + s.pki.signingPublics,
		"--service-account-signing-key-file=" + s.pki.signing,
		"--service-cluster-ip-range=" + clusterIPRanges,
		"--token-auth-file=" + tokens,
		"--authorization-mode=RBAC",
		"--disable-admission-plugins=ServiceAccount",
	}
}

// ready is nil when the server says so and can make Services: its own is there.
func (s *APIServer) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if err := s.Client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error(); err != nil {
		return err
	}
	_, err := s.Client.CoreV1().Services("default").Get(ctx, "kubernetes", metav1.GetOptions{})
	return err
}

// Kill ends the server as a crash would.
func (s *APIServer) Kill() {
	if s.process != nil {
		s.process.Kill()
	}
}

// Process is the running, or last, process of the server; nil before the first start.
func (s *APIServer) Process() *Process { return s.process }
