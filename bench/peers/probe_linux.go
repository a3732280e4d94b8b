package main

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/meshdns/meshdns/bench/data"
	"github.com/meshdns/meshdns/bench/stats"
)

const (
	// probeGrace is how long after the last question answers are waited for.
	probeGrace = time.Second
	// ids are as many as questions can be under way at one time.
	ids = 1 << 16
)

// probeLoad says how a prober asks.
type probeLoad struct {
	Rate    float64 // questions a second; of a closed load as many as memory is kept for
	Seconds float64
	EDNS    bool
	Fleet   data.Fleet
}

// probeResult is what a prober found out; durations run from a question's own sending.
type probeResult struct {
	Rate              float64 // as sent
	Sent, Lost, Wrong int
	P50, P99          time.Duration
	P9999, Max        time.Duration
}

// prober asks at even distances over one socket from one thread that never sleeps and
// never waits for an answer: what the server does cannot slow the questions down, and
// nothing has to wake the thread up before it can take the time of an answer.
type prober struct {
	fd      int
	queries [][]byte
	records int
	sentAt  [ids]time.Duration // by ID, since start; 0: none is under way
	took    []time.Duration
	wrong   int
	lost    int // IDs that came round again with no answer
	bytes   int // of right answers
	start   time.Time
}

// probe asks the server at addr.
func (l *lab) probe(addr string, load probeLoad) (probeResult, error) {
	p, err := newProber(addr, load)
	if err != nil {
		return probeResult{}, err
	}
	defer unix.Close(p.fd)
	if err := l.generate(func() error { return p.run(load) }); err != nil {
		return probeResult{}, fmt.Errorf("probe %s: %w", addr, err)
	}
	return p.result(load), nil
}

// generate has ask run in a thread of its own on the generator's processor; the thread ends
// with it, and so does its binding.
func (l *lab) generate(ask func() error) error {
	failed := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := bind(l.generatorCPUs())
		if err == nil {
			err = ask()
		}
		failed <- err
	}()
	return <-failed
}

// receiveRoom is what a prober's socket holds, in bytes: the answers of a server that was
// held up come in one burst. Without the right to it, the system gives what it allows.
const receiveRoom = 4 << 20

func newProber(addr string, load probeLoad) (*prober, error) {
	to, err := netip.ParseAddrPort(addr)
	if err != nil {
		return nil, err
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("a socket to probe with: %w", err)
	}
	if err := unix.Connect(fd, &unix.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()}); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("connect to %s: %w", addr, err)
	}
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, receiveRoom) != nil {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, receiveRoom) // losses are counted
	}
	p := &prober{fd: fd, records: load.Fleet.Clusters * load.Fleet.PerSlice, took: make([]time.Duration, 0, load.count())}
	for _, i := range load.Fleet.Order() {
		p.queries = append(p.queries, load.query(i))
	}
	return p, nil
}

// query asks for A of service i; with EDNS it has an OPT of 4096 bytes, as dnsperf's has
// (RFC 6891, section 6.1.2).
func (load probeLoad) query(i int) []byte {
	query := []byte{0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0}
	query = append(append(query, load.Fleet.Question(i)...), 0, 1, 0, 1)
	if load.EDNS {
		query[11] = 1
		query = append(query, 0, 0, 41, 0x10, 0, 0, 0, 0, 0, 0, 0)
	}
	return query
}

func (load probeLoad) count() int { return int(load.Rate * load.Seconds) }

// mayBeLate is how far behind its times the prober catches up; after a longer pause of the
// machine its times move instead, since a burst would measure room in sockets.
const mayBeLate = time.Millisecond

// run asks at even distances until all is answered, or probeGrace after the last question.
func (p *prober) run(load probeLoad) error {
	between := time.Duration(float64(time.Second) / load.Rate)
	total := load.count()
	reply := make([]byte, 4096)
	runtime.GC() // none is to come while it runs
	p.start = time.Now()
	for sent, due := 0, time.Duration(0); ; {
		now := time.Since(p.start)
		if sent < total && now >= due {
			if err := p.send(sent); err != nil {
				return err
			}
			sent++
			due = max(due, now-mayBeLate) + between
		}
		if err := p.receive(reply); err != nil {
			return err
		}
		if sent == total && (len(p.took)+p.wrong+p.lost == total || now > due+probeGrace) {
			return nil
		}
	}
}

// send asks the nth question.
func (p *prober) send(n int) error {
	id := uint16(n)
	query := p.queries[n%len(p.queries)]
	binary.BigEndian.PutUint16(query, id)
	if p.sentAt[id] != 0 {
		p.lost++
	}
	p.sentAt[id] = time.Since(p.start)
	_, err := unix.Write(p.fd, query)
	if err == unix.EAGAIN || err == unix.EINTR || err == unix.ECONNREFUSED {
		return nil // lost, as the result will say
	}
	return err
}

// receive takes one answer, if there is one.
func (p *prober) receive(reply []byte) error {
	n, err := unix.Read(p.fd, reply)
	if err == unix.EAGAIN || err == unix.EINTR || err == unix.ECONNREFUSED {
		return nil
	}
	if err != nil {
		return err
	}
	now := time.Since(p.start)
	if n < 12 {
		p.wrong++
		return nil
	}
	id := binary.BigEndian.Uint16(reply)
	at := p.sentAt[id]
	p.sentAt[id] = 0
	if at == 0 || reply[3]&15 != 0 || int(binary.BigEndian.Uint16(reply[6:])) != p.records {
		p.wrong++
		return nil
	}
	p.took = append(p.took, now-at)
	p.bytes += n
	return nil
}

func (p *prober) result(load probeLoad) probeResult {
	slices.Sort(p.took)
	return probeResult{
		Rate: load.Rate, Sent: load.count(), Wrong: p.wrong, Lost: load.count() - len(p.took) - p.wrong,
		P50: stats.SortedPercentile(p.took, 50), P99: stats.SortedPercentile(p.took, 99),
		P9999: stats.SortedPercentile(p.took, 99.99), Max: stats.SortedPercentile(p.took, 100),
	}
}
