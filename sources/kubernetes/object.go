package kubernetes

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"github.com/meshdns/meshdns/sources"
)

// kind is one of the two kinds of API objects that are read.
type kind uint8

const (
	kindService kind = iota
	kindSlice
	numKinds
)

// String is the kind's resource name in the API.
func (k kind) String() string { return [...]string{"services", "endpointslices"}[k] }

// key names an object of one kind.
type key struct{ namespace, name string }

func (k key) String() string { return k.namespace + "/" + k.name }

// object is what is kept of an API object on its way to the table: all that DNS needs and
// nothing else. It is immutable. It is a runtime.Object so that client-go's reflector can
// hold it while a list is incomplete, in place of the API object.
type object struct {
	kind kind
	key  key
	// service is the value of a Service, without slices.
	service sources.Service
	selects bool // a Service with a selector
	// owner and slice are what an EndpointSlice says: "" when it has nothing to say here
	// (no service label, an address type that is not served).
	owner string
	slice sources.Slice
	// fromEndpoints: an EndpointSlice that the cluster had mirrored from Endpoints.
	fromEndpoints bool
	// bad: the object could not be understood and is left out; what is held of it stays.
	bad bool
	// complaint is what is wrong with the object, "" for most.
	complaint string
}

// GetObjectKind implements runtime.Object.
func (*object) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// DeepCopyObject implements runtime.Object. An object never changes, so it is its copy.
func (o *object) DeepCopyObject() runtime.Object { return o }

// GetObjectMeta implements metav1.ObjectMetaAccessor, by which the reflector finds a key.
func (o *object) GetObjectMeta() metav1.Object {
	return &metav1.ObjectMeta{Namespace: o.key.namespace, Name: o.key.name}
}

// keyOf is the key of whatever a reflector hands to its store, tombstones included.
func keyOf(obj any) (key, error) {
	if o, ok := obj.(*object); ok {
		return o.key, nil
	}
	text, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj)
	if err != nil {
		return key{}, fmt.Errorf("key of a deleted %T: %w", obj, err)
	}
	namespace, name, err := cache.SplitMetaNamespaceKey(text)
	if err != nil {
		return key{}, fmt.Errorf("key of a deleted %T: %w", obj, err)
	}
	return key{namespace, name}, nil
}
