// Package harness runs the real programs that the end-to-end tests need: etcd, Kubernetes
// API servers, CoreDNS and the product's own binary. It never imports the product.
//
// The way of a run:
//
//	build.go      what to build, from which module, under which key in the cache folder
//	find.go       a kube-apiserver or etcd that is installed already is taken first
//	env.go        Env: one run's folder, binaries and processes; Close stops them all
//	process.go    one child process: its log, its end, its death with the test (Linux)
//	etcd.go       etcd, shared by all API servers through --etcd-prefix
//	apiserver.go  an API server that can be killed and started again on the same port
//	pki.go        its certificates and service-account keys
//	kubeconfig.go the files that the product and CoreDNS reach it with
//	coredns.go    CoreDNS with a given Corefile
//	meshdns.go    the product with a given configuration
//	proxy.go      a TCP proxy that can cut a cluster off from the product
//	upstream.go   an in-process DNS server: the rest of the world
//	stubs.go      unbound and dnsmasq with a given configuration: programs of the operating system
//	objects.go    Services and EndpointSlices, made by hand: no controller runs here
//	dns.go        questions, and answers as one line of text
//	wait.go       polling with a deadline, the only way to wait
//
// Functions return errors and take no testing.TB, so that processes can outlive one test;
// the tests decide what is fatal.
package harness
