package scenarios

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// startPatience is how long a server may take from start to readiness, on a machine that
// is busy with other scenarios; stopPatience from SIGTERM to its end.
const (
	startPatience = 30 * time.Second
	stopPatience  = 15 * time.Second
	pollEvery     = 10 * time.Millisecond
)

// Launch is how a server is to be started.
type Launch struct {
	Dir        string // the scenario's work folder, with config.yaml
	DNS, Admin string // host:port
	Listen     string // what to listen on, as --listen takes it
	OwnListen  bool   // the config's listen counts, Listen does not
	NotReady   bool   // don't wait for readiness, only for the admin API
	Etc        string // folder that stands in for /etc, "" for the real one
}

// Server is a server that is being tested.
type Server interface {
	// Log is all that it wrote so far.
	Log() string
	// Stop ends it and fails when it did not end well.
	Stop() error
	// Running fails when it has ended by itself.
	Running() error
}

// process is the built program at work.
type process struct {
	cmd  *exec.Cmd
	log  *logBuffer
	done chan struct{} // closed when the program has ended; err is set before
	err  error
}

// startProcess runs "binary serve" and waits until it is ready.
func startProcess(ctx context.Context, binary string, l Launch) (Server, error) {
	// No drain: the scenario sends nothing more when it stops the server.
	args := []string{"serve", "--config", "config.yaml", "--drain", "0s"}
	if !l.OwnListen {
		args = append(args, "--listen", l.Listen, "--admin", l.Admin)
	}
	cmd, err := command(ctx, l.Etc, binary, args)
	if err != nil {
		return nil, err
	}
	cmd.Dir = l.Dir
	p, err := newProcess(cmd)
	if err != nil {
		return nil, err
	}
	if err := p.waitReady(ctx, l); err != nil {
		return p, fmt.Errorf("waiting for the server: %w", err)
	}
	return p, nil
}

// newProcess starts cmd and collects what it writes.
func newProcess(cmd *exec.Cmd) (*process, error) {
	p := &process{cmd: cmd, log: &logBuffer{}, done: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = p.log, p.log
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", cmd.Path, err)
	}
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// ErrUnable says that this machine cannot run a scenario; an error that wraps it says what
// is missing.
var ErrUnable = errors.New("cannot run here")

// command is the program, with another folder in place of /etc when one is named: in a
// mount namespace of its own, which needs root.
func command(ctx context.Context, etc, binary string, args []string) (*exec.Cmd, error) {
	if etc == "" {
		return exec.CommandContext(ctx, binary, args...), nil
	}
	if os.Geteuid() != 0 {
		return nil, fmt.Errorf("%w: a folder in place of /etc needs root", ErrUnable)
	}
	probe := exec.CommandContext(ctx, "unshare", "--mount", "true")
	if out, err := probe.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: unshare --mount: %w: %s", ErrUnable, err, out)
	}
	const mountAndRun = `mount --bind "$1" /etc && shift && exec "$@"`
	wrapped := append([]string{"--mount", "sh", "-c", mountAndRun, "sh", etc, binary}, args...)
	return exec.CommandContext(ctx, "unshare", wrapped...), nil
}

func (p *process) waitReady(ctx context.Context, l Launch) error {
	path := "/readyz"
	if l.NotReady {
		path = "/healthz"
	}
	return until(ctx, startPatience, func() error {
		if err := p.Running(); err != nil {
			return errors.Join(errFinal, err)
		}
		status, body, err := httpGet(ctx, "http://"+l.Admin+path)
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("%s says %d: %s", path, status, strings.TrimSpace(body))
		}
		return errors.Join(err, listening(ctx, l.DNS))
	})
}

// listening fails while nobody accepts TCP connections at address.
func listening(ctx context.Context, address string) error {
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("nobody listens: %w", err)
	}
	return c.Close()
}

// Log implements Server.
func (p *process) Log() string { return p.log.String() }

// Running implements Server.
func (p *process) Running() error {
	select {
	case <-p.done:
		return fmt.Errorf("the server has ended: %w", p.ending())
	default:
		return nil
	}
}

// Stop implements Server: SIGTERM, an exit code of 0, no data race reported on the way.
func (p *process) Stop() error {
	if err := p.Running(); err != nil {
		return err
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("stopping the server: %w", err)
	}
	late := time.NewTimer(stopPatience)
	defer late.Stop()
	select {
	case <-p.done:
	case <-late.C:
		_ = p.cmd.Process.Kill()
		<-p.done
		return fmt.Errorf("the server did not end within %s of SIGTERM", stopPatience)
	}
	if strings.Contains(p.Log(), "WARNING: DATA RACE") {
		return errors.New("the server reported a data race")
	}
	if p.err != nil {
		return fmt.Errorf("the server ended badly: %w", p.err)
	}
	return nil
}

// ending is how the program ended; p.done must be closed.
func (p *process) ending() error {
	if p.err != nil {
		return p.err
	}
	return errors.New("exit status 0")
}

// logBuffer collects what the program writes.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// errFinal ends a wait at once.
var errFinal = errors.New("no use in waiting")

// until calls attempt again and again until it succeeds, for at most patience; the last
// error is returned.
func until(ctx context.Context, patience time.Duration, attempt func() error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		err := attempt()
		if err == nil || errors.Is(err, errFinal) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("still so after %s: %w", patience, err)
		case <-tick.C:
		}
	}
}

// httpGet fetches a page of the admin API.
func httpGet(ctx context.Context, url string) (status int, body string, err error) {
	ctx, cancel := context.WithTimeout(ctx, replyPatience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, "", err
	}
	request.Close = true // one server, one connection: nothing is left open at its end
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	return response.StatusCode, string(data), err
}

// Ports hands out port numbers that are free for UDP and TCP on every address, each once.
// They are below the range that the kernel gives to outgoing sockets.
type Ports struct {
	mu   sync.Mutex
	next int
}

const (
	firstPort = 20000
	lastPort  = 32000
)

// NewPorts begins at a random place, so that two test processes seldom meet.
func NewPorts() *Ports { return &Ports{next: firstPort + rand.IntN(lastPort-firstPort)} }

// Take is a free port.
func (p *Ports) Take() (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for range lastPort - firstPort {
		port := p.next
		if p.next++; p.next >= lastPort {
			p.next = firstPort
		}
		if isFree(port) {
			return port, nil
		}
	}
	return 0, errors.New("no free port")
}

func isFree(port int) bool {
	udp, err := net.ListenUDP("udp", &net.UDPAddr{Port: port})
	if err != nil {
		return false
	}
	defer udp.Close()
	tcp, err := net.ListenTCP("tcp", &net.TCPAddr{Port: port})
	if err != nil {
		return false
	}
	defer tcp.Close()
	return true
}
