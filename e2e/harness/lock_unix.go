//go:build unix

package harness

import (
	"os"
	"syscall"
)

// tryLockFile takes the lock of an open file, or fails at once when another process has it.
func tryLockFile(f *os.File) error {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}

// lockFile waits for the lock of an open file. The lock ends with the file or the process.
func lockFile(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX) }
