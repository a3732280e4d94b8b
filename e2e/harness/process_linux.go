package harness

import (
	"os/exec"
	"syscall"
)

// dieWithParent has the kernel kill the child when the calling thread ends, which a
// panicking or killed test does without running any cleanup.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
