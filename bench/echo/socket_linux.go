package main

import (
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"runtime/debug"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// room holds any query, and any reply, of the load tests.
const room = 1232

// receiveBuffer is what is asked for in bytes; the system may give less.
const receiveBuffer = 4 << 20

// message is struct mmsghdr of recvmmsg(2); Go pads it as C does.
type message struct {
	header unix.Msghdr
	length uint32
}

// loop is a socket with room for a batch in each direction.
type loop struct {
	answers *answers
	in, out []message
	queries [][]byte
	replies [][]byte
	inVec   []unix.Iovec
	outVec  []unix.Iovec
	from    []unix.RawSockaddrInet6 // large enough for both families
}

func newLoop(a *answers, batch int) *loop {
	l := &loop{
		answers: a, in: make([]message, batch), out: make([]message, batch),
		inVec: make([]unix.Iovec, batch), outVec: make([]unix.Iovec, batch),
		from: make([]unix.RawSockaddrInet6, batch),
	}
	for i := range batch {
		l.queries = append(l.queries, make([]byte, room))
		l.replies = append(l.replies, make([]byte, 0, room))
		l.inVec[i].Base = &l.queries[i][0]
		l.inVec[i].SetLen(room)
		l.in[i].header.Iov = &l.inVec[i]
		l.in[i].header.SetIovlen(1)
		l.in[i].header.Name = (*byte)(unsafe.Pointer(&l.from[i]))
		l.out[i].header.Iov = &l.outVec[i]
		l.out[i].header.SetIovlen(1)
	}
	return l
}

// receive reads at least one datagram into the batch, unless flags say not to wait.
func (l *loop) receive(fd uintptr, flags uintptr) (int, syscall.Errno) {
	for i := range l.in {
		l.in[i].header.Namelen = unix.SizeofSockaddrInet6
	}
	n, _, err := unix.RawSyscall6(unix.SYS_RECVMMSG, fd, uintptr(unsafe.Pointer(&l.in[0])), uintptr(len(l.in)),
		flags, 0, 0)
	return int(n), err
}

// answer makes the replies to the first n datagrams and gives how many there are.
func (l *loop) answer(n int) int {
	replies := 0
	for i := range n {
		reply := l.answers.reply(l.replies[replies], l.queries[i][:l.in[i].length])
		if reply == nil {
			continue
		}
		l.outVec[replies].Base = &reply[0]
		l.outVec[replies].SetLen(len(reply))
		l.out[replies].header.Name = l.in[i].header.Name
		l.out[replies].header.Namelen = l.in[i].header.Namelen
		replies++
	}
	return replies
}

// send writes n replies; what the system does not take is lost, as UDP may be. The runtime's
// signals may interrupt it while it waits for room: then it goes on.
func (l *loop) send(fd uintptr, n int) {
	for sent := 0; sent < n; {
		m, _, err := unix.RawSyscall6(unix.SYS_SENDMMSG, fd, uintptr(unsafe.Pointer(&l.out[sent])), uintptr(n-sent), 0, 0, 0)
		if err == unix.EINTR {
			continue
		}
		if err != 0 {
			return
		}
		sent += int(m)
	}
}

// runBlocking answers in this thread, which the kernel wakes up. The scheduler does not know
// that it waits, so that it neither hands its processor on nor asks for it back, which cost a
// tenth on one processor; a collection of garbage would wait for it, and there is none to be
// collected.
func (l *loop) runBlocking(fd uintptr) error {
	runtime.LockOSThread()
	debug.SetGCPercent(-1)
	for {
		n, err := l.receive(fd, unix.MSG_WAITFORONE)
		if err == unix.EINTR {
			continue
		}
		if err != 0 {
			return fmt.Errorf("recvmmsg: %w", err)
		}
		l.send(fd, l.answer(n))
	}
}

// runPoller answers in a goroutine that the runtime wakes up.
func (l *loop) runPoller(conn syscall.RawConn) error {
	var failed syscall.Errno
	step := func(fd uintptr) bool {
		n, err := l.receive(fd, unix.MSG_DONTWAIT)
		if err == unix.EAGAIN {
			return false
		}
		if failed = err; err == 0 {
			l.send(fd, l.answer(n))
		}
		return true
	}
	for {
		if err := conn.Read(step); err != nil {
			return fmt.Errorf("wait for a datagram: %w", err)
		}
		if failed != 0 && failed != unix.EINTR {
			return fmt.Errorf("recvmmsg: %w", failed)
		}
	}
}

// serve opens the socket and answers until it fails.
func serve(address netip.AddrPort, l *loop, blocking bool) error {
	conn, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(address))
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	if err := conn.SetReadBuffer(receiveBuffer); err != nil {
		return fmt.Errorf("receive buffer: %w", err)
	}
	if !blocking {
		raw, err := conn.SyscallConn()
		if err != nil {
			return fmt.Errorf("socket: %w", err)
		}
		return l.runPoller(raw)
	}
	file, err := conn.File() // a descriptor outside of the runtime's poller
	if err != nil {
		return fmt.Errorf("socket: %w", err)
	}
	conn.Close()
	if err := unix.SetNonblock(int(file.Fd()), false); err != nil {
		return fmt.Errorf("make the socket block: %w", err)
	}
	defer file.Close()
	return l.runBlocking(file.Fd())
}
