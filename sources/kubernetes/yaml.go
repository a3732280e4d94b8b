package kubernetes

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
)

// eachYAML calls f with each object of the documents of data, up to the first syntax error.
func eachYAML(data []byte, f func(raw)) (err error) {
	defer func() {
		if p := recover(); p != nil { // the parser's fault must not end the process
			err = fmt.Errorf("%v", p)
		}
	}()
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var doc yaml.Node
		if err := decoder.Decode(&doc); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		root := doc.Content[0]
		if root.Kind == yaml.ScalarNode && root.Tag == "!!null" {
			continue // an empty document
		}
		kind, items := yamlList(root)
		if items == nil {
			f(yamlObject(root, "", ""))
			continue
		}
		itemKind, version := itemsOf(kind.kind, kind.version)
		for _, node := range items.Content {
			f(yamlObject(node, itemKind, version))
		}
	}
}

// listKind is the type of a list.
type listKind struct{ kind, version string }

// yamlList is the type and the items of a list; items is nil when root is none.
func yamlList(root *yaml.Node) (kind listKind, items *yaml.Node) {
	if root.Kind != yaml.MappingNode {
		return kind, nil
	}
	for i := 0; i+1 < len(root.Content); i += 2 {
		value := root.Content[i+1]
		switch root.Content[i].Value {
		case "kind":
			kind.kind = value.Value
		case "apiVersion":
			kind.version = value.Value
		case "items":
			items = value
		}
	}
	if !strings.HasSuffix(kind.kind, "List") || items == nil || items.Kind != yaml.SequenceNode {
		return kind, nil
	}
	return kind, items
}

func yamlObject(node *yaml.Node, kind, version string) raw {
	r := raw{line: node.Line, kind: kind, version: version}
	var value any
	if r.err = node.Decode(&value); r.err == nil {
		r.data, r.err = json.Marshal(value)
	}
	return r
}
