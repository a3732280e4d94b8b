package server

import (
	"encoding/binary"
	"sync"
	"time"
)

// A frame is a message behind its length; a batch is some frames that are written at once. A
// batch that a client is slow to read is all that its connection holds, so it is made to measure.

// smallBatch takes most replies.
const smallBatch = 4096

// batches lends batches to connections. Larger ones are made for one reply each.
type batches struct{ pool sync.Pool }

func newBatches() *batches {
	return &batches{pool: sync.Pool{New: func() any { return new([smallBatch]byte) }}}
}

// enqueue adds a reply to the batch. Where it has no room left, a new one is begun, and the
// full one is given back to be written.
func (c *tcpConn) enqueue(reply []byte) (full []byte) {
	if c.batch != nil && cap(c.batch)-len(c.batch) < 2+len(reply) {
		full, c.batch = c.batch, nil
	}
	if c.batch == nil {
		c.batch = c.batches.get(reply)
	}
	c.batch = appendFrame(c.batch, reply)
	return full
}

// flush writes what is enqueued. Only the reader may call it, and enqueue.
func (c *tcpConn) flush() ending {
	batch := c.batch
	c.batch = nil
	return c.writeBatch(batch)
}

// writeBatch writes whole frames in one call and takes the batch back; nil is nothing to do.
// An error ends the connection: the client does not read, or is gone.
func (c *tcpConn) writeBatch(batch []byte) ending {
	if batch == nil {
		return notEnded
	}
	c.writeMu.Lock()
	defer c.writeMu.Unlock()
	defer c.batches.put(batch)
	if why := c.brokenBy(); why != notEnded {
		return why
	}
	_ = c.conn.SetWriteDeadline(time.Now().Add(c.limits.WriteTime))
	_, err := c.conn.Write(batch)
	if err == nil {
		c.touch()
		return notEnded
	}
	c.metrics.SocketFailed("tcp", "write")
	if isTimeout(err) {
		return c.breakOff(endedWrite)
	}
	return c.breakOff(endedReset)
}

// breakOff ends the connection at once, for the reason that came first, which it returns.
func (c *tcpConn) breakOff(why ending) ending {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.broken == notEnded {
		c.broken = why
	}
	c.abort()
	return c.broken
}

func (c *tcpConn) brokenBy() ending {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.broken
}

func appendFrame(batch, message []byte) []byte {
	batch = binary.BigEndian.AppendUint16(batch, uint16(len(message)))
	return append(batch, message...)
}

// get gives an empty batch with room for a reply and, unless that is large, for more.
func (b *batches) get(reply []byte) []byte {
	if 2+len(reply) > smallBatch {
		return make([]byte, 0, 2+len(reply))
	}
	return b.pool.Get().(*[smallBatch]byte)[:0]
}

func (b *batches) put(batch []byte) {
	if cap(batch) == smallBatch {
		b.pool.Put((*[smallBatch]byte)(batch[:smallBatch]))
	}
}
