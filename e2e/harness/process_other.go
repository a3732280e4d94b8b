//go:build !linux

package harness

import (
	"fmt"
	"os/exec"
)

// dieWithParent does nothing here: children of a test that panics are left over.
func dieWithParent(*exec.Cmd) {}

// Resident is the process's resident memory in bytes, which is known on Linux only.
func (p *Process) Resident() (int, error) {
	return 0, fmt.Errorf("resident memory of %s: not known on this system", p.Name)
}
