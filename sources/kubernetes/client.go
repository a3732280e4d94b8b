package kubernetes

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
)

// clients are the REST clients of one session. There is no clientset: its scheme of all
// API groups would be most of the program.
type clients struct {
	http  *http.Client
	codec runtime.ParameterCodec
	rest  [numKinds]rest.Interface
}

func newClients(access *rest.Config) (*clients, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, discoveryv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("register API types: %w", err)
		}
	}
	cfg := clientConfig(access)
	cfg.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, err
	}
	c := &clients{http: client, codec: runtime.NewParameterCodec(scheme)}
	for k := range numKinds {
		if c.rest[k], err = k.client(cfg, client); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// clientConfig is access with all that is the same for every cluster.
func clientConfig(access *rest.Config) *rest.Config {
	cfg := rest.CopyConfig(access)
	cfg.UserAgent = "meshdns"
	cfg.ContentType = runtime.ContentTypeProtobuf
	cfg.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	cfg.QPS, cfg.Burst = requestsPerSecond, requestBurst
	cfg.WarningHandler = rest.NoWarnings{}
	if cfg.BearerTokenFile != "" {
		// As the REST client would do it, but a token that is refused is read again at once
		// and not within a minute.
		token := transport.NewCachedFileTokenSource(cfg.BearerTokenFile)
		cfg.Wrap(transport.ResettableTokenSourceWrapTransport(token))
		cfg.BearerToken, cfg.BearerTokenFile = "", ""
	}
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return &observer{next} })
	return cfg
}

// client is the REST client of a kind's API group.
func (k kind) client(base *rest.Config, client *http.Client) (rest.Interface, error) {
	cfg := rest.CopyConfig(base)
	cfg.APIPath, cfg.GroupVersion = "/api", &corev1.SchemeGroupVersion
	if k == kindSlice {
		cfg.APIPath, cfg.GroupVersion = "/apis", &discoveryv1.SchemeGroupVersion
	}
	return rest.RESTClientForConfigAndClient(cfg, client)
}

// close ends idle connections. What is still in use must have ended before.
func (c *clients) close() { utilnet.CloseIdleConnectionsFor(c.http.Transport) }

func (k kind) newObject() runtime.Object {
	if k == kindSlice {
		return &discoveryv1.EndpointSlice{}
	}
	return &corev1.Service{}
}

func (k kind) newList() runtime.Object {
	if k == kindSlice {
		return &discoveryv1.EndpointSliceList{}
	}
	return &corev1.ServiceList{}
}

// list reads one page. The request is not repeated here: the reflector's back-off does
// that, where it can be seen.
func (c *clients) list(ctx context.Context, k kind, opts metav1.ListOptions) (runtime.Object, error) {
	list := k.newList()
	err := c.rest[k].Get().Resource(k.String()).VersionedParams(&opts, c.codec).MaxRetries(0).Do(ctx).Into(list)
	if err != nil {
		return nil, err
	}
	if !meta.IsListType(list) {
		return nil, fmt.Errorf("%T is not a list", list)
	}
	return list, nil
}

// watch opens a watch. Unlike the REST client's own method, it does not turn a connection
// that broke or timed out before the answer into an empty watch.
func (c *clients) watch(ctx context.Context, k kind, opts metav1.ListOptions) (watch.Interface, error) {
	opts.Watch = true
	var broken atomic.Pointer[error]
	ctx = context.WithValue(ctx, observed{}, &broken)
	w, err := c.rest[k].Get().Resource(k.String()).VersionedParams(&opts, c.codec).MaxRetries(0).Watch(ctx)
	if err != nil {
		return nil, err
	}
	if broken := broken.Load(); broken != nil {
		w.Stop()
		return nil, *broken
	}
	return w, nil
}

// observed is the context key of a *atomic.Pointer[error] that gets the transport's error.
type observed struct{}

// observer notes the transport's errors where a request's context asks for it.
type observer struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (o *observer) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := o.next.RoundTrip(req)
	if broken, ok := req.Context().Value(observed{}).(*atomic.Pointer[error]); ok && err != nil {
		broken.Store(&err)
	}
	return resp, err
}

// WrappedRoundTripper lets client-go reach the transport below.
func (o *observer) WrappedRoundTripper() http.RoundTripper { return o.next }
