package kubernetes

import (
	"encoding/binary"
	"strings"
)

// roll is the names and lines of a file's objects, packed into one piece of memory without
// pointers: some 25 bytes each. An object is
//
//	byte kind + 4 × same, uvarint line, [text namespace], text name
//
// where same says that the namespace is that of the object before, and a text is a uvarint
// length and its bytes.
type roll string

// kinds of objects by their number in a roll.
func rollKinds() [3]string { return [...]string{serviceName, sliceName, endpointsName} }

// sameNamespace marks an object of a roll whose namespace is not repeated.
const sameNamespace = 1 << 2

// rollWriter packs a roll.
type rollWriter struct {
	packed    []byte
	namespace string
}

func (w *rollWriter) add(id itemID, line int) {
	var head byte
	for rollKinds()[head] != id.kind {
		head++
	}
	same := len(w.packed) > 0 && id.namespace == w.namespace
	if same {
		head |= sameNamespace
	}
	w.packed = append(w.packed, head)
	w.packed = binary.AppendUvarint(w.packed, uint64(line))
	if !same {
		w.text(id.namespace)
		w.namespace = id.namespace
	}
	w.text(id.name)
}

func (w *rollWriter) text(text string) {
	w.packed = binary.AppendUvarint(w.packed, uint64(len(text)))
	w.packed = append(w.packed, text...)
}

func (w *rollWriter) roll() roll { return roll(w.packed) }

// each calls f for each object. Its names are parts of the roll.
func (r roll) each(f func(id itemID, line int)) {
	rest, namespace := string(r), ""
	for rest != "" {
		head := rest[0]
		var line int
		line, rest = cutNumber(rest[1:])
		if head&sameNamespace == 0 {
			namespace, rest = cutText(rest)
		}
		var name string
		name, rest = cutText(rest)
		f(itemID{rollKinds()[head&^sameNamespace], key{namespace, name}}, line)
	}
}

func cutText(s string) (text, rest string) {
	n, rest := cutNumber(s)
	return rest[:n], rest[n:]
}

func cutNumber(s string) (n int, rest string) {
	for i, shift := 0, 0; ; i, shift = i+1, shift+7 {
		n |= int(s[i]&0x7f) << shift
		if s[i] < 0x80 {
			return n, s[i+1:]
		}
	}
}

// clone is id without a roll behind it.
func (id itemID) clone() itemID {
	return itemID{id.kind, key{strings.Clone(id.namespace), strings.Clone(id.name)}}
}
