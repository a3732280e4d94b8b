package admin

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestServe(t *testing.T) {
	defer goleak.VerifyNone(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- newServer(newMesh()).Serve(ctx, listener) }()

	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	response, err := client.Get("http://" + listener.Addr().String() + "/healthz")
	require.NoError(t, err)
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	assert.Equal(t, "ok\n", string(body))

	cancel()
	require.NoError(t, <-done)
	_, err = net.Dial("tcp", listener.Addr().String())
	assert.Error(t, err, "the listener is closed")
}

func TestServeSaysWhyItEnded(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	assert.ErrorContains(t, newServer(newMesh()).Serve(t.Context(), listener), "admin API on 127.0.0.1:")
}

func TestWarnsOutsideLoopback(t *testing.T) {
	tests := map[string]bool{"127.0.0.1:0": false, "0.0.0.0:0": true}
	for address, warned := range tests {
		listener, err := net.Listen("tcp", address)
		require.NoError(t, err)
		var logged bytes.Buffer
		server := newServer(newMesh())
		server.Logger = slog.New(slog.NewTextHandler(&logged, nil))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.NoError(t, server.Serve(ctx, listener))
		assert.Equal(t, warned, strings.Contains(logged.String(), "reachable from outside"), address)
	}
}

func TestIsLoopback(t *testing.T) {
	tests := []struct {
		addr net.Addr
		want bool
	}{
		{&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}, true},
		{&net.TCPAddr{IP: net.IPv6loopback}, true},
		{&net.TCPAddr{IP: net.ParseIP("::ffff:127.0.0.5")}, true},
		{&net.TCPAddr{}, false},
		{&net.TCPAddr{IP: net.IPv4(192, 0, 2, 1)}, false},
		{&net.UnixAddr{Name: "admin.sock"}, true},
	}
	for _, test := range tests {
		assert.Equal(t, test.want, isLoopback(test.addr), test.addr)
	}
}
