package server

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// message is a struct mmsghdr (recvmmsg(2)).
type message struct {
	Hdr unix.Msghdr
	Len uint32 // bytes read or sent
}

// to addresses a reply.
func (m *message) to(client *unix.RawSockaddrInet6, length uint32, control []byte) {
	m.Hdr.Name = (*byte)(unsafe.Pointer(client))
	m.Hdr.Namelen = length
	m.Hdr.Control = unsafe.SliceData(control)
	m.Hdr.SetControllen(len(control))
}

// carry puts a reply into the message, whose only piece of memory iovec describes.
func (m *message) carry(iovec *unix.Iovec, reply []byte) {
	iovec.Base = unsafe.SliceData(reply)
	iovec.SetLen(len(reply))
}

// calls are the system calls of a loop, which tests replace.
type calls struct {
	// receive waits for one datagram at least and gives how many there are; with an error, 0.
	receive func(fd int, messages []message) (int, error)
	// send gives how many of messages were sent; with an error, 0: the first one failed.
	send func(fd int, messages []message) (int, error)
}

// recvmmsg may block, which the scheduler is told of.
func recvmmsg(fd int, messages []message) (int, error) {
	n, _, errno := unix.Syscall6(unix.SYS_RECVMMSG, uintptr(fd),
		uintptr(unsafe.Pointer(unsafe.SliceData(messages))), uintptr(len(messages)), unix.MSG_WAITFORONE, 0, 0)
	return countOf(n, errno)
}

// sendmmsg tells the scheduler of the call only where it has to wait for room: sending a batch
// takes long enough for the scheduler to give the processor to others in the middle of it.
func sendmmsg(fd int, messages []message) (int, error) {
	n, _, errno := unix.RawSyscall6(unix.SYS_SENDMMSG, uintptr(fd),
		uintptr(unsafe.Pointer(unsafe.SliceData(messages))), uintptr(len(messages)), unix.MSG_DONTWAIT, 0, 0)
	if errno == unix.EAGAIN {
		n, _, errno = unix.Syscall6(unix.SYS_SENDMMSG, uintptr(fd),
			uintptr(unsafe.Pointer(unsafe.SliceData(messages))), uintptr(len(messages)), 0, 0, 0)
	}
	return countOf(n, errno)
}

func countOf(n uintptr, errno unix.Errno) (int, error) {
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}
