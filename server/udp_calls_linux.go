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

func recvmmsg(fd int, messages []message) (int, error) {
	return onMessages(unix.SYS_RECVMMSG, fd, messages, unix.MSG_WAITFORONE)
}

func sendmmsg(fd int, messages []message) (int, error) {
	return onMessages(unix.SYS_SENDMMSG, fd, messages, 0)
}

// onMessages makes a call that may block, which the scheduler is told of.
func onMessages(call uintptr, fd int, messages []message, flags uintptr) (int, error) {
	n, _, errno := unix.Syscall6(call, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(messages))), uintptr(len(messages)), flags, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}
