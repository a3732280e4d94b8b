package main

import (
	"fmt"
	"net"

	"github.com/meshdns/meshdns/bench/data"
)

// Peers are set so that they do the same work as this server and no other: records in
// varying order, nothing beside the answer, no logs and statistics of queries, no rate
// limits, no control channel.

func (l *lab) startNSD(address string, f data.Fleet) (*process, error) { return l.nsd(address, f, "") }

// nsd starts it with more lines in its server section.
func (l *lab) nsd(address string, f data.Fleet, more string) (*process, error) {
	zone, err := l.zoneFile(f)
	if err != nil {
		return nil, err
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	dir, config, err := l.write("nsd.conf", fmt.Sprintf(`server:
  ip-address: %s@%s
  server-count: 1
  username: ""
  chroot: ""
  database: ""
  pidfile: ""
  xfrdfile: "xfrd.state"
  zonelistfile: "zone.list"
  minimal-responses: yes
  round-robin: yes
  rrl-ratelimit: 0
  rrl-whitelist-ratelimit: 0
  verbosity: 0
%sremote-control:
  control-enable: no
zone:
  name: %s
  zonefile: %q
`, host, port, more, data.Zone, zone))
	if err != nil {
		return nil, err
	}
	return l.start(program{name: "nsd", path: l.bin.NSD, args: []string{"-d", "-c", config}, dir: dir, cpus: l.serverCPUs()})
}

func (l *lab) startKnot(address string, f data.Fleet) (*process, error) {
	return l.knot(address, f, "")
}

// knot starts it with more lines in its server section.
func (l *lab) knot(address string, f data.Fleet, more string) (*process, error) {
	zone, err := l.zoneFile(f)
	if err != nil {
		return nil, err
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	dir, err := l.folder("knot")
	if err != nil {
		return nil, err
	}
	_, config, err := l.write("knot.conf", fmt.Sprintf(`server:
  rundir: %[1]q
  listen: %[2]s@%[3]s
  udp-workers: 1
  tcp-workers: 1
  background-workers: 1
  answer-rotation: on
%[6]sdatabase:
  storage: %[1]q
log:
- target: stderr
  any: error
template:
- id: default
  storage: %[1]q
  journal-content: none
  zonefile-sync: -1
  semantic-checks: off
zone:
- domain: %[4]s
  file: %[5]q
`, dir, host, port, data.Zone, zone, more))
	if err != nil {
		return nil, err
	}
	return l.start(program{name: "knot", path: l.bin.Knot, args: []string{"-c", config}, dir: dir, cpus: l.serverCPUs()})
}

func (l *lab) startBIND(address string, f data.Fleet) (*process, error) {
	return l.bind9(address, f, "")
}

// bind9 starts it with more lines in its options.
func (l *lab) bind9(address string, f data.Fleet, more string) (*process, error) {
	zone, err := l.zoneFile(f)
	if err != nil {
		return nil, err
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	dir, err := l.folder("bind")
	if err != nil {
		return nil, err
	}
	_, config, err := l.write("named.conf", fmt.Sprintf(`options {
  directory %[1]q;
  pid-file none;
  session-keyfile none;
  listen-on port %[3]s { %[2]s; };
  listen-on-v6 { none; };
  recursion no;
  notify no;
  dnssec-validation no;
  minimal-responses yes;
  rrset-order { order random; };
  zone-statistics none;
  %[6]s
};
controls { };
logging { category default { null; }; };
zone %[4]q { type primary; file %[5]q; };
`, dir, host, port, data.Zone, zone, more))
	if err != nil {
		return nil, err
	}
	return l.start(program{name: "bind", path: l.bin.BIND, args: []string{"-g", "-n", "1", "-c", config}, dir: dir, cpus: l.serverCPUs()})
}

// cacheRoom is above the number of names, so that the cache holds all of them: its default
// of 9,984 would not.
const cacheRoom = 262_144

func (l *lab) startCoreDNSFile(address string, f data.Fleet) (*process, error) {
	zone, err := l.zoneFile(f)
	if err != nil {
		return nil, err
	}
	return l.startCoreDNS(address, fmt.Sprintf("minimal\nloadbalance round_robin\ncache {\n success %d\n}\nfile %q", cacheRoom, zone))
}

// startCoreDNSKubernetes serves a cluster under our zone's name, so that the questions are
// the same ones.
func (l *lab) startCoreDNSKubernetes(address, kubeconfig string) (*process, error) {
	return l.startCoreDNS(address, fmt.Sprintf("minimal\nloadbalance round_robin\nkubernetes {\n kubeconfig %q\n ttl 300\n}", kubeconfig))
}

// startCoreDNS starts it with as many processors for Go as it is bound to, as it does by
// itself, or -coredns-procs.
func (l *lab) startCoreDNS(address, plugins string) (*process, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	_, config, err := l.write("Corefile", fmt.Sprintf("%s:%s {\nbind %s\n%s\n}\n", data.Zone, port, host, plugins))
	if err != nil {
		return nil, err
	}
	var env []string
	if l.corednsProcs > 0 {
		env = []string{fmt.Sprintf("GOMAXPROCS=%d", l.corednsProcs)}
	}
	return l.start(program{name: "coredns", path: l.bin.CoreDNS, args: []string{"-conf", config}, env: env, cpus: l.serverCPUs()})
}
