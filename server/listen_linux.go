package server

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// readable says whether a socket holds something that was not read yet: bytes, a datagram, a
// connection or its end. A read cannot tell, since it does not look once its deadline has passed,
// which on a busy machine may be before it began.
func readable(conn syscall.Conn) bool {
	c, err := conn.SyscallConn()
	if err != nil {
		return false
	}
	found := 0
	err = control(c, func(fd int) (err error) {
		found, err = pollNow(fd, unix.POLLIN)
		return err
	})
	return err == nil && found > 0
}

// pollNow says whether one of events is there. A signal can interrupt even a poll that does not
// wait, and the scheduler sends some.
func pollNow(fd int, events int16) (found int, err error) {
	for {
		found, err = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: events}}, 0)
		if err != unix.EINTR {
			return found, err
		}
	}
}

func control(c syscall.RawConn, f func(fd int) error) error {
	var err error
	controlErr := c.Control(func(fd uintptr) { err = f(int(fd)) })
	return errors.Join(controlErr, err)
}

// openFilesLimit is how many files the process may have open; 0 if not known.
func openFilesLimit() uint64 {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 0
	}
	return limit.Cur
}
