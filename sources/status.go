package sources

import "time"

// Status is how a source is doing. The latest one counts.
type Status struct {
	// Source is the source's name, unique in the process: the cluster's name for a
	// cluster, "registryDir" for the folder of documents, "dns:<host>" for a DNS backend.
	Source string
	// Kind is "kubernetes", "manifests", "files", "dns", …
	Kind string
	// Synced: a whole first list has been pushed. Never goes back to false.
	Synced bool
	// Error is why the source is not up to date, "" when it is.
	Error string
	// LastSuccess is when the backend last confirmed what it said (list, event or
	// bookmark); zero before the first time.
	LastSuccess time.Time
	// Skipped counts objects or documents that are left out because they are bad, and
	// LastSkip says why for the latest; they don't make the source unhealthy.
	Skipped  int
	LastSkip string
}
