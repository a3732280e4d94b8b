package server

import (
	"context"
	"net"
	"sync"
	"time"
)

// tcpConn is one connection. One goroutine reads its messages and answers those that need not
// wait (tcp_read.go); the others are answered by goroutines of their own, in any order
// (tcp_waiting.go); replies meet in write (tcp_write.go). While it is idle it holds a small array.
type tcpConn struct {
	*common
	conn      *net.TCPConn
	transport Transport
	ctx       context.Context // of its waiting queries; ends with the connection
	cancel    context.CancelFunc

	// The reader's own: bytes in[start:end] are read and not yet answered; batch holds replies
	// not yet written. 512: a dozen of pipelined queries.
	in         [512]byte
	start, end int
	batch      []byte
	work       *workspace // from the first query that was read until the next read; nil: none

	waiters sync.WaitGroup

	mu        sync.Mutex
	activeAt  time.Time // when something was last read or written; mu
	partialAt time.Time // when a message began to come that is not whole; zero: none; mu
	drainAt   time.Time // when Shutdown began; zero before; mu
	waiting   int       // waiting queries; mu
	broken    ending    // why nothing can be written any more; mu

	writeMu sync.Mutex // held while a batch is written; taken before mu
}

// ending is why a connection ends: one of the texts that SocketMetrics.ConnectionClosed lists.
type ending string

const (
	notEnded      ending = ""
	endedByClient ending = "client"
	endedIdle     ending = "idle"
	endedMessage  ending = "message"
	endedWrite    ending = "write"
	endedReset    ending = "reset"
	endedShort    ending = "short"
	endedDropped  ending = "dropped"
	endedShutdown ending = "shutdown"
)

func newTCPConn(shared *common, conn *net.TCPConn) *tcpConn {
	ctx, cancel := context.WithCancel(shared.ctx)
	return &tcpConn{
		common: shared,
		conn:   conn,
		transport: Transport{
			Protocol: TCP,
			Client:   boundAddress(conn.RemoteAddr()),
			Local:    boundAddress(conn.LocalAddr()),
		},
		ctx:      ctx,
		cancel:   cancel,
		activeAt: time.Now(),
	}
}

// serve answers until the connection ends, closes it, and says why it ended.
func (c *tcpConn) serve() string {
	why := c.answerAll()
	switch why {
	case endedByClient, endedIdle:
		c.waiters.Wait()
	case endedShutdown:
		c.waiters.Wait()
		c.linger()
	}
	c.abort()
	c.waiters.Wait()
	if broken := c.brokenBy(); broken != notEnded {
		why = broken
	}
	return string(why)
}

func (c *tcpConn) answerAll() ending {
	for {
		query, why := c.next()
		if why == notEnded {
			why = c.answer(query)
		}
		if why != notEnded {
			return why
		}
	}
}

// answer replies to one query, or leaves it to a goroutine that may wait.
func (c *tcpConn) answer(query []byte) ending {
	c.beginWork()
	reply, verdict := c.work.handler.Answer(c.work.out, query, &c.transport)
	if verdict == Wait && c.wait(query) {
		return notEnded
	}
	if verdict == Wait {
		c.metrics.WaitingRefused("tcp")
		reply, verdict = c.work.handler.HandleWaiting(endedContext(), c.work.out, query, &c.transport)
	}
	if !sendable(reply, verdict) {
		c.flush()
		return endedDropped
	}
	if full := c.enqueue(reply); full != nil {
		c.endWork()
		return c.writeBatch(full)
	}
	return notEnded
}

// beginWork borrows a workspace for the queries that were read together.
func (c *tcpConn) beginWork() {
	if c.work == nil {
		c.work = c.tcpWork.get()
	}
}

// endWork gives it back, before anything that may wait for the client.
func (c *tcpConn) endWork() {
	if c.work != nil {
		c.tcpWork.put(c.work)
		c.work = nil
	}
}

// sendable says whether there is a reply, of a length that can be told.
func sendable(reply []byte, verdict Verdict) bool {
	return verdict == Reply && len(reply) > 0 && len(reply) <= tcpReplyRoom
}

// drain lets the reader take what was received, and end.
func (c *tcpConn) drain(at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drainAt = at
	_ = c.conn.SetReadDeadline(past())
}

// abort ends everything on the connection at once.
func (c *tcpConn) abort() {
	c.cancel()
	_ = c.conn.Close()
}

// linger says that no more replies follow, and reads on for a moment: closing with something
// unread would reset the connection and could destroy replies on their way.
func (c *tcpConn) linger() {
	if c.conn.CloseWrite() != nil || c.conn.SetReadDeadline(time.Now().Add(lingerTime)) != nil {
		return
	}
	for {
		if _, err := c.conn.Read(c.in[:]); err != nil {
			return
		}
	}
}
