package harness

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
)

// The range of FreePort: below the ephemeral ports of every common system, so that no
// outgoing connection takes a port between its choice and its use.
const (
	firstPort = 20000
	lastPort  = 32000
)

// given are the ports that FreePort has handed out, shared by all who run in this process.
var given sync.Map

// FreePort gives a loopback port that is free over TCP and UDP now and is not given twice.
func FreePort() (int, error) {
	for range 1000 {
		port := firstPort + rand.IntN(lastPort-firstPort)
		if _, taken := given.LoadOrStore(port, true); !taken && portIsFree(port) {
			return port, nil
		}
	}
	return 0, errors.New("no free loopback port found")
}

// FreePorts gives n different ports.
func FreePorts(n int) ([]int, error) {
	ports := make([]int, n)
	for i := range ports {
		port, err := FreePort()
		if err != nil {
			return nil, err
		}
		ports[i] = port
	}
	return ports, nil
}

func portIsFree(port int) bool {
	tcp, err := net.Listen("tcp", Loopback(port))
	if err != nil {
		return false
	}
	defer tcp.Close()
	udp, err := net.ListenPacket("udp", Loopback(port))
	if err != nil {
		return false
	}
	udp.Close()
	return true
}

// Loopback is the address of a port on this machine.
func Loopback(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }
