// Command coredns is the real CoreDNS with its default plugins, built from its released
// module: the end-to-end tests forward through it and measure against its kubernetes plugin.
// It is a module of its own, so that its dependencies reach neither the product nor the tests.
package main

import (
	_ "github.com/coredns/coredns/core/plugin" // the default plugins
	"github.com/coredns/coredns/coremain"
)

func main() {
	coremain.Run()
}
