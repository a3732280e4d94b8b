package server

import "golang.org/x/sys/unix"

// Both filters are classic BPF, which needs no privilege.

// randomNumber is where a program reads a random number: SKF_AD_OFF + SKF_AD_RANDOM of
// linux/filter.h, as 32 bits.
const randomNumber = 1<<32 - 0x1000 + 56

// spread makes the system choose a socket at random for each datagram, among those of one
// address, all of which must be open. By itself it hashes addresses and ports, so that a
// forwarder that asks from one port has all of its queries answered by one worker while the
// others idle. A number that no socket has any more is as without the program (socket(7)).
func spread(conns []*udpConn) error {
	if len(conns) < 2 {
		return nil
	}
	return attach(conns[0].fd, unix.SO_ATTACH_REUSEPORT_CBPF, []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: randomNumber},
		{Code: unix.BPF_ALU | unix.BPF_MOD | unix.BPF_K, K: uint32(len(conns))},
		{Code: unix.BPF_RET | unix.BPF_A},
	})
}

// refuseDatagrams makes the system drop all that comes from now on, by a filter that keeps 0
// bytes of each, so that a socket can be emptied to the last datagram that it took.
func refuseDatagrams(fd int) error {
	return attach(fd, unix.SO_ATTACH_FILTER, []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K, K: 0}})
}

func attach(fd, option int, filter []unix.SockFilter) error {
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	return unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, option, &program)
}
