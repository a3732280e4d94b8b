package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// insideVariable is set in the process that runs inside of the namespace; its value is the
// folder with the programs.
const insideVariable = "MESHDNS_PEERS_INSIDE"

// reenter runs this program again in a network namespace of its own, where no port is
// taken and nobody else sends. Without the right to make one it runs beside everything else.
func reenter(dir string) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	cmd := exec.Command(self, os.Args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), insideVariable+"="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() == 0 {
		cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWNET
	} else {
		fmt.Fprintln(os.Stderr, "peers: not root: no network namespace of its own, other traffic on this machine counts too")
	}
	return cmd.Run()
}

// raiseLoopback switches the loopback interface on, which a new namespace has switched off.
func raiseLoopback() error {
	lo, err := net.InterfaceByName("lo")
	if err != nil || lo.Flags&net.FlagUp != 0 {
		return err
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("a socket for the loopback interface: %w", err)
	}
	defer unix.Close(fd)
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, request); err != nil {
		return fmt.Errorf("switch the loopback interface on: %w", err)
	}
	return nil
}
