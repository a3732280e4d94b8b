// Command prepare builds the programs that the end-to-end tests run into their cache
// folder, saying what it does, so that the tests themselves start at once. It fails where
// CI=true when one of them is missing; elsewhere it names it, and the tests skip.
package main

import (
	"fmt"
	"os"

	"github.com/meshdns/meshdns/e2e/harness"
)

func main() {
	if err := prepare(); err != nil {
		fmt.Fprintln(os.Stderr, "prepare:", err)
		os.Exit(1)
	}
}

func prepare() error {
	builder, err := harness.NewBuilder(os.Stderr)
	if err != nil {
		return err
	}
	for _, tool := range harness.ToolsToCache() {
		if _, err := builder.Tool(tool); err != nil {
			if os.Getenv("CI") == "true" {
				return err
			}
			fmt.Fprintf(os.Stderr, "e2e: MISSING: %v\ne2e: tests that need %s will be skipped\n", err, tool)
		}
	}
	return nil
}
