package harness

import (
	"context"
	"fmt"
	"os/exec"
	"os/user"
	"path/filepath"
)

// Programs of the operating system. They are never built here; hack/tools installs them.
const (
	Unbound Tool = "unbound"
	Dnsmasq Tool = "dnsmasq"
	Dig     Tool = "dig"
	Host    Tool = "host"
)

// debianPackages have the programs of Installed.
func debianPackages() map[Tool]string {
	return map[Tool]string{Unbound: "unbound", Dnsmasq: "dnsmasq-base", Dig: "bind9-dnsutils", Host: "bind9-host"}
}

// Installed finds a program of the operating system, also where a user's PATH leaves out
// the folders of servers. The error is a MissingError.
func Installed(t Tool) (string, error) {
	for _, name := range []string{string(t), "/usr/sbin/" + string(t), "/usr/local/sbin/" + string(t)} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", &MissingError{Tool: t, Err: fmt.Errorf("install the Debian package %s, as hack/tools does", debianPackages()[t])}
}

// Stub is a DNS server that others ask in place of the product, which it asks.
type Stub struct {
	*Process
	DNS string // where it answers, UDP and TCP
}

// unboundAround is what an instance beside the machine's own needs: a port, a folder, and
// leave to ask a server on loopback. Verbosity 2 logs mismatched spelling.
const unboundAround = `server:
    interface: 127.0.0.1
    port: %d
    directory: %q
    chroot: ""
    username: ""
    use-syslog: no
    do-not-query-localhost: no
    num-threads: 1
    verbosity: 2
remote-control:
    control-enable: no
`

// StartUnbound starts unbound with a configuration, given from a section's line on.
func (e *Env) StartUnbound(ctx context.Context, config string) (*Stub, error) {
	return e.startStub(ctx, Unbound, []string{"-d", "-p", "-c"}, func(port int, dir string) string {
		return fmt.Sprintf(unboundAround, port, dir) + config
	})
}

// dnsmasqAround is what an instance beside the machine's own needs. It keeps the user,
// since changing it takes capabilities that containers lack.
const dnsmasqAround = `port=%d
listen-address=127.0.0.1
bind-interfaces
no-resolv
no-hosts
user=%s
pid-file=%s
log-facility=-
`

// StartDnsmasq starts dnsmasq with a configuration.
func (e *Env) StartDnsmasq(ctx context.Context, config string) (*Stub, error) {
	self, err := user.Current()
	if err != nil {
		return nil, fmt.Errorf("user to run dnsmasq as: %w", err)
	}
	return e.startStub(ctx, Dnsmasq, []string{"-k", "-C"}, func(port int, dir string) string {
		return fmt.Sprintf(dnsmasqAround, port, self.Username, filepath.Join(dir, "pid")) + config
	})
}

// startStub writes the configuration for a port and a folder, starts the program with the
// arguments and the file's path, and waits for its first reply.
func (e *Env) startStub(ctx context.Context, t Tool, args []string, config func(port int, dir string) string) (*Stub, error) {
	path, err := Installed(t)
	if err != nil {
		return nil, err
	}
	port, err := FreePort()
	if err != nil {
		return nil, err
	}
	dir, err := e.Folder(string(t))
	if err != nil {
		return nil, err
	}
	file, err := WriteFile(dir, string(t)+".conf", config(port, dir))
	if err != nil {
		return nil, err
	}
	process, err := e.start(command{name: string(t), path: path, dir: dir, args: append(args, file)})
	if err != nil {
		return nil, err
	}
	stub := &Stub{Process: process, DNS: Loopback(port)}
	return stub, process.await(ctx, startWithin, func() error {
		_, err := Ask(stub.DNS, Question{Name: "localhost", Type: "A"}) // no server is asked for it
		return err
	})
}
