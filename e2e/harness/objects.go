package harness

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Service is a Kubernetes Service in a few words. Without a selector, since nothing here
// would follow one.
type Service struct {
	Namespace, Name string
	Headless        bool
	DualStack       bool
	External        string   // the target of an ExternalName service
	Ports           []string // "http:80", "dns:53/UDP", ":80" for an unnamed one
	PublishNotReady bool
	ClusterIP       string // "" lets the API server choose
	Labels          map[string]string
}

// Object is the API object.
func (s Service) Object() (*corev1.Service, error) {
	ports, err := s.ports()
	if err != nil {
		return nil, err
	}
	object := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name, Labels: s.Labels},
		Spec: corev1.ServiceSpec{
			Type:                     corev1.ServiceTypeClusterIP,
			ClusterIP:                s.ClusterIP,
			Ports:                    ports,
			PublishNotReadyAddresses: s.PublishNotReady,
		},
	}
	switch {
	case s.External != "":
		object.Spec.Type, object.Spec.ExternalName = corev1.ServiceTypeExternalName, s.External
	case s.Headless:
		object.Spec.ClusterIP = corev1.ClusterIPNone
	}
	if s.DualStack {
		policy := corev1.IPFamilyPolicyRequireDualStack
		object.Spec.IPFamilyPolicy = &policy
	}
	return object, nil
}

func (s Service) ports() ([]corev1.ServicePort, error) {
	var all []corev1.ServicePort
	for _, text := range s.Ports {
		name, number, protocol, err := parsePort(text)
		if err != nil {
			return nil, err
		}
		all = append(all, corev1.ServicePort{
			Name: name, Port: number, Protocol: protocol, TargetPort: intstr.FromInt32(number),
		})
	}
	return all, nil
}

// Endpoint is one endpoint of a slice, ready unless said otherwise.
type Endpoint struct {
	Address     string
	Hostname    string
	Pod         string // name of the pod that targetRef points at
	NotReady    bool
	Terminating bool // not ready, but serving while it ends
	Serving     *bool
	NoCondition bool // all conditions absent
}

// Ready are endpoints of plain addresses.
func Ready(addresses ...string) []Endpoint {
	var all []Endpoint
	for _, address := range addresses {
		all = append(all, Endpoint{Address: address})
	}
	return all
}

// Slice is an EndpointSlice in a few words; its family is that of the first endpoint.
type Slice struct {
	Namespace, Name, Service string
	Ports                    []string // as in Service, numbers of the pods
	Endpoints                []Endpoint
}

// Object is the API object.
func (s Slice) Object() (*discoveryv1.EndpointSlice, error) {
	object := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.Namespace, Name: s.Name,
			Labels: map[string]string{discoveryv1.LabelServiceName: s.Service},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{},
	}
	for _, text := range s.Ports {
		name, number, protocol, err := parsePort(text)
		if err != nil {
			return nil, err
		}
		object.Ports = append(object.Ports, discoveryv1.EndpointPort{Name: &name, Port: &number, Protocol: &protocol})
	}
	for _, endpoint := range s.Endpoints {
		object.Endpoints = append(object.Endpoints, endpoint.object(s.Namespace))
	}
	if len(s.Endpoints) == 0 {
		return object, nil
	}
	first, err := netip.ParseAddr(s.Endpoints[0].Address)
	if err != nil {
		return nil, fmt.Errorf("slice %s: %w", s.Name, err)
	}
	if first.Is6() {
		object.AddressType = discoveryv1.AddressTypeIPv6
	}
	return object, nil
}

func (e Endpoint) object(namespace string) discoveryv1.Endpoint {
	object := discoveryv1.Endpoint{Addresses: []string{e.Address}}
	if e.Hostname != "" {
		object.Hostname = &e.Hostname
	}
	if e.Pod != "" {
		object.TargetRef = &corev1.ObjectReference{Kind: "Pod", Namespace: namespace, Name: e.Pod}
	}
	if e.NoCondition {
		return object
	}
	ready := !e.NotReady && !e.Terminating
	serving := ready || e.Terminating
	if e.Serving != nil {
		serving = *e.Serving
	}
	object.Conditions = discoveryv1.EndpointConditions{Ready: &ready, Serving: &serving, Terminating: &e.Terminating}
	return object
}

// parsePort reads "name:number/PROTOCOL"; TCP unless said otherwise.
func parsePort(text string) (name string, number int32, protocol corev1.Protocol, err error) {
	rest, proto, found := strings.Cut(text, "/")
	if !found {
		proto = "TCP"
	}
	name, digits, found := strings.Cut(rest, ":")
	if !found {
		return "", 0, "", fmt.Errorf("port %q is not name:number", text)
	}
	value, err := strconv.ParseInt(digits, 10, 32)
	if err != nil {
		return "", 0, "", fmt.Errorf("port %q: %w", text, err)
	}
	return name, int32(value), corev1.Protocol(proto), nil
}

// PutNamespace makes a namespace unless it is there.
func (s *APIServer) PutNamespace(ctx context.Context, name string) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	_, err := s.Client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("%s: make namespace %s: %w", s.Name, name, err)
	}
	return nil
}

// DropNamespace deletes a namespace with its Services and EndpointSlices, doing the work
// of the namespace controller, which does not run. What is not there is fine.
func (s *APIServer) DropNamespace(ctx context.Context, name string) error {
	everything := metav1.ListOptions{}
	err := s.Client.DiscoveryV1().EndpointSlices(name).DeleteCollection(ctx, metav1.DeleteOptions{}, everything)
	errs := []error{err}
	services, err := s.Client.CoreV1().Services(name).List(ctx, everything)
	errs = append(errs, err)
	if err == nil {
		for _, service := range services.Items {
			errs = append(errs, s.DeleteService(ctx, name, service.Name))
		}
	}
	errs = append(errs, s.finalize(ctx, name))
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%s: drop namespace %s: %w", s.Name, name, err)
	}
	return nil
}

// finalize deletes an emptied namespace for good.
func (s *APIServer) finalize(ctx context.Context, name string) error {
	namespaces := s.Client.CoreV1().Namespaces()
	if err := namespaces.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return ignoreNotFound(err)
	}
	namespace, err := namespaces.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return ignoreNotFound(err)
	}
	namespace.Spec.Finalizers = nil
	_, err = namespaces.Finalize(ctx, namespace, metav1.UpdateOptions{})
	return ignoreNotFound(err)
}

// PutService makes a Service, or replaces what can be replaced of it.
func (s *APIServer) PutService(ctx context.Context, service Service) error {
	object, err := service.Object()
	if err != nil {
		return err
	}
	services := s.Client.CoreV1().Services(service.Namespace)
	_, err = services.Create(ctx, object, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		err = s.replaceService(ctx, object)
	}
	if err != nil {
		return fmt.Errorf("%s: put service %s/%s: %w", s.Name, service.Namespace, service.Name, err)
	}
	return nil
}

// replaceService keeps the cluster IPs, which cannot change.
func (s *APIServer) replaceService(ctx context.Context, object *corev1.Service) error {
	services := s.Client.CoreV1().Services(object.Namespace)
	old, err := services.Get(ctx, object.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	object.ResourceVersion = old.ResourceVersion
	if object.Spec.ClusterIP == "" && object.Spec.Type == old.Spec.Type {
		object.Spec.ClusterIP, object.Spec.ClusterIPs = old.Spec.ClusterIP, old.Spec.ClusterIPs
	}
	_, err = services.Update(ctx, object, metav1.UpdateOptions{})
	return err
}

// DeleteService deletes a Service; one that is not there is fine.
func (s *APIServer) DeleteService(ctx context.Context, namespace, name string) error {
	err := s.Client.CoreV1().Services(namespace).Delete(ctx, name, metav1.DeleteOptions{})
	if ignoreNotFound(err) != nil {
		return fmt.Errorf("%s: delete service %s/%s: %w", s.Name, namespace, name, err)
	}
	return nil
}

// ClusterIPs are the virtual addresses of a Service.
func (s *APIServer) ClusterIPs(ctx context.Context, namespace, name string) ([]string, error) {
	service, err := s.Client.CoreV1().Services(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("%s: get service %s/%s: %w", s.Name, namespace, name, err)
	}
	return service.Spec.ClusterIPs, nil
}

// PutSlice makes or replaces an EndpointSlice.
func (s *APIServer) PutSlice(ctx context.Context, slice Slice) error {
	object, err := slice.Object()
	if err != nil {
		return err
	}
	all := s.Client.DiscoveryV1().EndpointSlices(slice.Namespace)
	_, err = all.Update(ctx, object, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		_, err = all.Create(ctx, object, metav1.CreateOptions{})
	}
	if err != nil {
		return fmt.Errorf("%s: put slice %s/%s: %w", s.Name, slice.Namespace, slice.Name, err)
	}
	return nil
}

// DeleteSlice deletes an EndpointSlice; one that is not there is fine.
func (s *APIServer) DeleteSlice(ctx context.Context, namespace, name string) error {
	err := s.Client.DiscoveryV1().EndpointSlices(namespace).Delete(ctx, name, metav1.DeleteOptions{})
	if ignoreNotFound(err) != nil {
		return fmt.Errorf("%s: delete slice %s/%s: %w", s.Name, namespace, name, err)
	}
	return nil
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
