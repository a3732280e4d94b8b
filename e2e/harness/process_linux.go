package harness

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

// dieWithParent has the kernel kill the child when the calling thread ends, which a
// panicking or killed test does without running any cleanup.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// Resident is the process's resident memory in bytes.
func (p *Process) Resident() (int, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0, fmt.Errorf("resident memory of %s: %w", p.Name, err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kb := 0
			if _, err := fmt.Sscan(rest, &kb); err != nil {
				return 0, fmt.Errorf("resident memory of %s: %q: %w", p.Name, line, err)
			}
			return kb << 10, nil
		}
	}
	return 0, fmt.Errorf("resident memory of %s: it has ended", p.Name)
}
