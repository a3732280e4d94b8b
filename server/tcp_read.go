package server

import (
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"time"
)

// next gives the next message, which is valid until the call after. Replies are written out
// before it waits for the client.
func (c *tcpConn) next() ([]byte, ending) {
	for {
		size, known := c.nextSize()
		switch {
		case known && size < headerSize:
			c.flush()
			return nil, endedShort
		case known && 2+size <= c.end-c.start:
			return c.take(size), notEnded
		}
		if why := c.flush(); why != notEnded {
			return nil, why
		}
		c.markPartial(c.end > c.start)
		if known && 2+size > len(c.in) {
			return c.readLarge(size)
		}
		if why := c.fill(); why != notEnded {
			return nil, why
		}
	}
}

// gather gives a message and the whole ones that were read with it, valid until next.
func (c *tcpConn) gather(queries [][]byte, first []byte) [][]byte {
	queries = append(queries, first)
	for len(queries) < mostTogether {
		size, known := c.nextSize()
		if !known || size < headerSize || 2+size > c.end-c.start {
			break
		}
		queries = append(queries, c.take(size))
	}
	return queries
}

// nextSize is the length of the next message, once that has been read.
func (c *tcpConn) nextSize() (size int, known bool) {
	if c.end-c.start < 2 {
		return 0, false
	}
	return int(binary.BigEndian.Uint16(c.in[c.start:])), true
}

func (c *tcpConn) take(size int) []byte {
	message := c.in[c.start+2 : c.start+2+size]
	c.start += 2 + size
	c.markPartial(false)
	return message
}

// fill reads some bytes behind those that are there.
func (c *tcpConn) fill() ending {
	copy(c.in[:], c.in[c.start:c.end])
	c.start, c.end = 0, c.end-c.start
	n, why := c.read(c.in[c.end:])
	c.end += n
	return why
}

// readLarge reads a message that the array cannot hold. Memory grows with what has come, not
// with what was announced.
func (c *tcpConn) readLarge(size int) ([]byte, ending) {
	message := append(make([]byte, 0, 2*len(c.in)), c.in[c.start+2:c.end]...)
	c.start, c.end = 0, 0
	for len(message) < size {
		message = slices.Grow(message, 1)
		room := message[len(message):min(cap(message), size)]
		n, why := c.read(room)
		if why != notEnded {
			return nil, why
		}
		message = message[:len(message)+n]
	}
	c.markPartial(false)
	return message, notEnded
}

// read reads at least one byte, or says why none comes.
func (c *tcpConn) read(b []byte) (int, ending) {
	for {
		c.armRead()
		n, err := c.conn.Read(b)
		switch {
		case n > 0:
			c.touch()
			return n, notEnded
		case errors.Is(err, io.EOF):
			return 0, endedByClient
		case !isTimeout(err):
			return 0, endedReset
		}
		if why := c.timedOut(); why != notEnded {
			return 0, why
		}
	}
}

// markPartial starts or stops the clock of a message that is not whole.
func (c *tcpConn) markPartial(partial bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case !partial:
		c.partialAt = time.Time{}
	case c.partialAt.IsZero():
		c.partialAt = c.activeAt
	}
}

// touch notes that something was read or written.
func (c *tcpConn) touch() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.activeAt = time.Now()
}

func (c *tcpConn) armRead() {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.conn.SetReadDeadline(c.deadlineLocked(time.Now()))
}

// timedOut says why a read has timed out, if it has: it may have been woken by drain, the
// deadline may have moved, or what came in time is still unread.
func (c *tcpConn) timedOut() ending {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if c.partialAt.IsZero() && !c.deadlineLocked(now).After(now) && readable(c.conn) {
		c.activeAt = now
	}
	switch {
	case c.deadlineLocked(now).After(now):
		return notEnded
	case !c.drainAt.IsZero():
		return endedShutdown
	case !c.partialAt.IsZero():
		return endedMessage
	default:
		return endedIdle
	}
}

// deadlineLocked is when the reader gives up if nothing comes. A connection with waiting
// queries is not idle.
func (c *tcpConn) deadlineLocked(now time.Time) time.Time {
	deadline := c.activeAt.Add(c.limits.IdleTime)
	switch {
	case !c.partialAt.IsZero():
		deadline = c.partialAt.Add(c.limits.MessageTime)
	case c.waiting > 0:
		deadline = now.Add(c.limits.IdleTime)
	}
	if c.drainAt.IsZero() {
		return deadline
	}
	if c.partialAt.IsZero() {
		deadline = later(c.activeAt, c.drainAt).Add(quietTime)
	}
	if last := c.drainAt.Add(c.limits.MessageTime); last.Before(deadline) {
		return last
	}
	return deadline
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
