package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// stopGrace is how long a process may take to end after SIGTERM before it is killed: more
// than the product drains, less than anyone wants to wait for an API server.
const stopGrace = 10 * time.Second

// Process is one child process. Its output goes to a file, so that nothing is lost and
// nothing blocks when nobody reads.
type Process struct {
	Name    string
	LogPath string
	Started time.Time

	cmd        *exec.Cmd
	done       chan struct{} // closed when the process has ended
	err        error         // how it ended; read after done only
	killOnStop bool          // nothing to save: Stop need not ask; set right after the start
}

// command is what to run.
type command struct {
	name string // for the log file and messages
	path string
	args []string
	env  []string // beside the test's own; later entries win
	dir  string   // working folder; "" is the run's folder
}

// start runs a command until it ends or the Env closes.
func (e *Env) start(c command) (*Process, error) {
	logPath := filepath.Join(e.dir, e.unique(c.name)+".log")
	log, err := os.Create(logPath)
	if err != nil {
		return nil, fmt.Errorf("log of %s: %w", c.name, err)
	}
	defer log.Close() // the child has its own descriptor
	cmd := exec.Command(c.path, c.args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(os.Environ(), c.env...)
	cmd.Dir = c.dir
	if cmd.Dir == "" {
		cmd.Dir = e.dir
	}
	p := &Process{Name: c.name, LogPath: logPath, cmd: cmd, done: make(chan struct{})}
	p.Started, err = e.spawner.start(cmd)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", c.name, err)
	}
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	e.mu.Lock()
	e.processes = append(e.processes, p)
	e.mu.Unlock()
	return p, nil
}

// WaitEnd waits for the process to end by itself.
func (p *Process) WaitEnd(ctx context.Context, within time.Duration) error {
	select {
	case <-p.done:
		return nil
	case <-time.After(within):
		return fmt.Errorf("%s still runs after %s", p.Name, within)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Exit is the exit status of a process that has ended.
func (p *Process) Exit() int { return p.cmd.ProcessState.ExitCode() }

// Stop asks the process to end, kills it when it does not, and waits for it. A second
// call does nothing. The error says that it had to be killed.
func (p *Process) Stop() error {
	if p.Ended() {
		return nil
	}
	if p.killOnStop {
		p.Kill()
		return nil
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop %s: %w", p.Name, err)
	}
	select {
	case <-p.done:
		return nil
	case <-time.After(stopGrace):
		p.Kill()
		return fmt.Errorf("%s had not ended %s after SIGTERM and was killed", p.Name, stopGrace)
	}
}

// Kill ends the process at once, as a crash would, and waits for it.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // an error says that it has ended
	<-p.done
}

// Ended tells whether the process has ended.
func (p *Process) Ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Tail gives the last lines of the log.
func (p *Process) Tail(lines int) string {
	data, err := os.ReadFile(p.LogPath)
	if err != nil {
		return fmt.Sprintf("(no log: %v)", err)
	}
	all := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// await polls check until it is nil; it fails early when the process ends.
func (p *Process) await(ctx context.Context, within time.Duration, check func() error) error {
	err := Poll(ctx, within, func() error {
		if p.Ended() {
			return Final(fmt.Errorf("it ended: %v", p.err))
		}
		return check()
	})
	if err != nil {
		return fmt.Errorf("%s is not ready: %w; its log ends:\n%s", p.Name, err, p.Tail(30))
	}
	return nil
}

// spawner starts processes from one operating-system thread that lives as long as the
// run: Linux sends the parent-death signal when the thread that forked ends, and Go ends
// threads whenever it likes.
type spawner struct {
	requests chan spawnRequest
}

type spawnRequest struct {
	cmd   *exec.Cmd
	reply chan spawnReply
}

type spawnReply struct {
	at  time.Time // just before the start
	err error
}

func newSpawner() *spawner {
	s := &spawner{requests: make(chan spawnRequest)}
	go s.run()
	return s
}

// run never unlocks its thread: it ends with the goroutine, and with it all children.
func (s *spawner) run() {
	runtime.LockOSThread()
	for r := range s.requests {
		dieWithParent(r.cmd)
		at := time.Now()
		r.reply <- spawnReply{at: at, err: r.cmd.Start()}
	}
}

func (s *spawner) start(cmd *exec.Cmd) (time.Time, error) {
	reply := make(chan spawnReply, 1)
	s.requests <- spawnRequest{cmd: cmd, reply: reply}
	r := <-reply
	return r.at, r.err
}

func (s *spawner) close() { close(s.requests) }
