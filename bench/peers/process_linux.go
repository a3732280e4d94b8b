package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// stopGrace is how long a server may take to end before it is killed.
const stopGrace = 10 * time.Second

// lab is where a run takes place: a folder, programs, and processors.
type lab struct {
	options
	bin   binaries
	dir   string // removed at the end
	out   io.Writer
	log   io.Writer
	names int // given to files so far
}

// program is what to start, and where.
type program struct {
	name  string // for messages and files
	path  string
	args  []string
	env   []string // NAME=value, beside our own
	dir   string
	cpus  []int // nil: all
	pipes bool  // standard input and output are for us
}

// process is a program that runs.
type process struct {
	called string
	pid    int
	begun  time.Time
	cmd    *exec.Cmd
	log    string
	stdin  io.WriteCloser // with pipes
	stdout io.Reader      // with pipes
	done   chan struct{}  // closed when it has ended
	err    error          // how; after done
}

// start starts a program, bound to its processors from its first instruction on, since Go
// programs count them when they start. Linux kills it when we end.
func (l *lab) start(p program) (*process, error) {
	l.names++
	log := filepath.Join(l.dir, fmt.Sprintf("%s-%d.log", p.name, l.names))
	file, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	cmd := exec.Command(p.path, p.args...)
	cmd.Stdout, cmd.Stderr, cmd.Dir = file, file, p.dir
	cmd.Env = append(os.Environ(), p.env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := &process{called: p.name, cmd: cmd, log: log, done: make(chan struct{})}
	if p.pipes {
		if err := started.pipe(); err != nil {
			return nil, err
		}
	}
	failed := make(chan error)
	go started.run(p.cpus, failed)
	if err := <-failed; err != nil {
		return nil, fmt.Errorf("start %s: %w", p.name, err)
	}
	return started, nil
}

func (p *process) pipe() error {
	p.cmd.Stdout = nil
	in, err := p.cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := p.cmd.StdoutPipe()
	p.stdin, p.stdout = in, out
	return err
}

// run starts the program and waits for it in one thread: children inherit the thread's
// processors, and are killed when the thread that started them ends.
func (p *process) run(cpus []int, failed chan<- error) {
	runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
	err := bind(cpus)
	if err == nil {
		p.begun = time.Now()
		err = p.cmd.Start()
	}
	if err == nil {
		p.pid = p.cmd.Process.Pid
	}
	failed <- err
	if err != nil {
		return
	}
	p.err = p.cmd.Wait()
	close(p.done)
}

// bind binds the calling thread to processors; nil leaves it as it is.
func bind(cpus []int) error {
	if cpus == nil {
		return nil
	}
	var set unix.CPUSet
	for _, cpu := range cpus {
		set.Set(cpu)
	}
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("bind to processors %v: %w", cpus, err)
	}
	return nil
}

// wait waits for the program to end well; when ctx ends it is stopped.
func (p *process) wait(ctx context.Context) error {
	select {
	case <-p.done:
		return p.err
	case <-ctx.Done():
		p.stop()
		return ctx.Err()
	}
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// stop ends the program and waits for it.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // an error says that it has ended
	timer := time.NewTimer(stopGrace)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

// output is all that the program has written.
func (p *process) output() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// pollEvery is the pause between two looks at something that is awaited.
const pollEvery = 5 * time.Millisecond

// await looks until check is nil; the error is that of the last look.
func (p *process) await(ctx context.Context, within time.Duration, check func() error) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for {
		err := check()
		if err == nil {
			return nil
		}
		if p.ended() {
			return fmt.Errorf("%s has ended: %v: %s", p.called, p.err, lastLines(p.output()))
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s after %s: %w: %s", p.called, within, err, lastLines(p.output()))
		case <-ticker.C:
		}
	}
}

func lastLines(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-10):], "\n")
}

// freeAddress is a loopback address whose port is free over UDP and TCP.
func freeAddress() (string, error) {
	for range 100 {
		udp, err := net.ListenPacket("udp", "127.0.0.1:0")
		if err != nil {
			return "", fmt.Errorf("find a free port: %w", err)
		}
		address := udp.LocalAddr().String()
		tcp, err := net.Listen("tcp", address)
		udp.Close()
		if err == nil {
			tcp.Close()
			return address, nil
		}
	}
	return "", errors.New("no port is free over both UDP and TCP")
}

// folder makes a folder for a program's files.
func (l *lab) folder(name string) (string, error) {
	l.names++
	dir := filepath.Join(l.dir, fmt.Sprintf("%s-%d", name, l.names))
	return dir, os.Mkdir(dir, 0o755)
}
