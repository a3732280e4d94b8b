package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/meshdns/meshdns/bench/data"
)

// tcpWithin bounds what a good client waits for.
const tcpWithin = 20 * time.Second

// frame is a question behind its length.
func frame(f data.Fleet, i int, id uint16) []byte {
	query := probeLoad{Fleet: f}.query(i % f.Services)
	binary.BigEndian.PutUint16(query, id)
	return append(binary.BigEndian.AppendUint16(nil, uint16(len(query))), query...)
}

// readReply reads one message behind its length and gives its ID.
func readReply(r io.Reader, buffer []byte) (id uint16, err error) {
	if _, err := io.ReadFull(r, buffer[:2]); err != nil {
		return 0, err
	}
	size := int(binary.BigEndian.Uint16(buffer))
	if _, err := io.ReadFull(r, buffer[:size]); err != nil {
		return 0, err
	}
	if size < 12 || buffer[3]&15 != 0 || binary.BigEndian.Uint16(buffer[6:]) == 0 {
		return 0, fmt.Errorf("a reply of %d bytes without an answer", size)
	}
	return binary.BigEndian.Uint16(buffer), nil
}

func dialTCP(addr string) (net.Conn, error) {
	conn, err := net.DialTimeout("tcp", addr, tcpWithin)
	if err != nil {
		return nil, err
	}
	return conn, conn.SetDeadline(time.Now().Add(tcpWithin))
}

// openIdle opens connections that ask one question each and then nothing. Those that the
// server refuses or closes are missing from it.
func openIdle(addr string, f data.Fleet, n int) ([]net.Conn, error) {
	conns := make([]net.Conn, n)
	var opening errgroup.Group
	opening.SetLimit(32)
	for i := range conns {
		opening.Go(func() error {
			conn, err := dialTCP(addr)
			if err != nil {
				return fmt.Errorf("idle connection %d: %w", i, err)
			}
			conns[i] = conn
			if _, err := conn.Write(frame(f, i, uint16(i))); err != nil {
				return nil // it is not counted as open
			}
			_, _ = readReply(conn, make([]byte, 1<<16))
			return nil
		})
	}
	return conns, opening.Wait()
}

func closeAll(conns []net.Conn) {
	for _, c := range conns {
		if c != nil {
			_ = c.Close()
		}
	}
}

// established counts a server's connections in the system's table (proc(5)).
func established(addr string) (n int, err error) {
	text, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		return 0, err
	}
	at, err := netip.ParseAddrPort(addr)
	if err != nil {
		return 0, err
	}
	port := fmt.Sprintf(":%04X", at.Port())
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 3 && strings.HasSuffix(fields[1], port) && fields[3] == "01" {
			n++
		}
	}
	return n, nil
}

// pipeline asks many questions in one write and gives the time to the last answer.
func pipeline(addr string, f data.Fleet, n int) (time.Duration, error) {
	conn, err := dialTCP(addr)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	var all bytes.Buffer
	for i := range n {
		all.Write(frame(f, i, uint16(i)))
	}
	began := time.Now()
	written := make(chan error, 1)
	go func() {
		_, err := conn.Write(all.Bytes())
		written <- err
	}()
	buffer, seen := make([]byte, 1<<16), make([]bool, 1<<16)
	in := &bufferedReader{Reader: conn}
	for answered := range n {
		id, err := readReply(in, buffer)
		if err != nil || seen[id] || int(id) >= n {
			return 0, fmt.Errorf("answer %d of %d pipelined questions, ID %d: %w", answered, n, id, errors.Join(err, conn.Close(), <-written))
		}
		seen[id] = true
	}
	return time.Since(began), <-written
}

// bufferedReader keeps reads from being one system call for each length and message.
type bufferedReader struct {
	io.Reader
	buffer [1 << 15]byte
	rest   []byte
}

func (r *bufferedReader) Read(p []byte) (int, error) {
	if len(r.rest) == 0 {
		n, err := r.Reader.Read(r.buffer[:])
		if n == 0 {
			return 0, err
		}
		r.rest = r.buffer[:n]
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// cut is how a bad client ended.
type cut struct {
	after time.Duration
	never bool // not within -patience
	err   error
}

func (c cut) String() string {
	if c.never {
		return fmt.Sprintf("not in %.0f s", c.after.Seconds())
	}
	return fmt.Sprintf("%.1f s", c.after.Seconds())
}

// until does something again and again until the server cuts the connection off.
func until(ctx context.Context, addr string, attack func(net.Conn) error) cut {
	conn, err := net.DialTimeout("tcp", addr, tcpWithin)
	if err != nil {
		return cut{err: err}
	}
	defer conn.Close()
	began := time.Now()
	if deadline, ok := ctx.Deadline(); ok {
		err = conn.SetDeadline(deadline)
	}
	if err == nil {
		err = attack(conn)
	}
	return cut{after: time.Since(began), never: errors.Is(err, os.ErrDeadlineExceeded)}
}

// slowLoris sends one byte a second of a question.
func slowLoris(ctx context.Context, addr string, f data.Fleet) cut {
	return until(ctx, addr, func(conn net.Conn) error {
		over := make(chan struct{})
		defer close(over)
		go func() {
			drip := time.NewTicker(time.Second)
			defer drip.Stop()
			for _, b := range frame(f, 0, 1) {
				if _, err := conn.Write([]byte{b}); err != nil {
					return // whoever reads learns it too
				}
				select {
				case <-drip.C:
				case <-over:
					return
				}
			}
		}()
		_, err := conn.Read(make([]byte, 1))
		return err
	})
}

// neverRead asks as fast as the server takes it, and reads no answer.
func neverRead(ctx context.Context, addr string, f data.Fleet) cut {
	return until(ctx, addr, func(conn net.Conn) error {
		batch := bytes.Repeat(frame(f, 0, 1), 100)
		for {
			if _, err := conn.Write(batch); err != nil {
				return err
			}
		}
	})
}
