package files

import (
	"github.com/meshdns/meshdns/dirwatch"
	"github.com/meshdns/meshdns/document"
	"github.com/meshdns/meshdns/registry"
)

// Check reads all documents of a folder or file once and returns what is wrong with them,
// ordered by place. What cannot be read is an error too.
func Check(dir string, opts registry.Options) []document.Problem {
	opts.Source = Name
	snapshot, _ := dirwatch.Read(dir) // its error joins those of the files
	var problems []document.Problem
	var services []*registry.MeshService
	for _, f := range snapshot.Files {
		if f.Err != nil {
			problems = append(problems, document.Problem{File: f.Path, Message: "cannot be read: " + f.Err.Error()})
			continue
		}
		docs, found := registry.Decode(f.Path, f.Content, opts)
		services = append(services, docs...)
		problems = append(problems, found...)
	}
	problems = append(problems, registry.CheckSet(services, opts)...)
	document.Sort(problems)
	return problems
}
