package harness

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestProxy: what is cut is reset and refused, what is frozen is silent, and both end.
func TestProxy(t *testing.T) {
	echo, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer echo.Close()
	go func() {
		for {
			conn, err := echo.Accept()
			if err != nil {
				return
			}
			go io.Copy(conn, conn)
		}
	}()
	proxy, err := NewProxy(echo.Addr().(*net.TCPAddr).Port)
	require.NoError(t, err)
	defer proxy.Cut()

	first := dial(t, proxy)
	require.NoError(t, bounce(first))
	proxy.Freeze()
	require.ErrorIs(t, bounce(first), os.ErrDeadlineExceeded, "frozen is silent")
	second := dial(t, proxy)
	require.NoError(t, bounce(second), "a new connection is not frozen")

	proxy.Cut()
	for _, conn := range []net.Conn{first, second} {
		err := bounce(conn)
		require.Error(t, err)
		require.NotErrorIs(t, err, os.ErrDeadlineExceeded, "cut is reset")
	}
	_, err = net.Dial("tcp", Loopback(proxy.Port))
	require.Error(t, err, "cut is refused")

	require.NoError(t, proxy.Restore())
	require.NoError(t, bounce(dial(t, proxy)))
}

func dial(t *testing.T, proxy *Proxy) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", Loopback(proxy.Port))
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	return conn
}

// bounce sends a byte and waits for it.
func bounce(conn net.Conn) error {
	if err := conn.SetDeadline(time.Now().Add(300 * time.Millisecond)); err != nil {
		return err
	}
	if _, err := conn.Write([]byte{42}); err != nil {
		return err
	}
	var back [1]byte
	if _, err := io.ReadFull(conn, back[:]); err != nil {
		return err
	}
	if back[0] != 42 {
		return errors.New("another byte came back")
	}
	return nil
}
