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
			why = c.answerTogether(query)
		}
		if why != notEnded {
			return why
		}
	}
}

// mostTogether is how many whole messages the array can hold.
const mostTogether = 512 / (2 + headerSize)

// answerTogether replies to a query and to those that were read with it.
func (c *tcpConn) answerTogether(first []byte) ending {
	var room [mostTogether][]byte
	queries := c.gather(room[:0], first)
	for len(queries) > 0 {
		n, why := c.answerSome(queries)
		if why != notEnded {
			return why
		}
		queries = queries[n:]
	}
	return notEnded
}

// answerSome replies to as many queries as one batch of replies has room for. The workspace
// is given back before anything that may wait for the client.
func (c *tcpConn) answerSome(queries [][]byte) (n int, why ending) {
	work := c.tcpWork.get()
	work.queries = append(work.queries[:0], queries...)
	work.handler.Begin(work.queries)
	var full []byte
	for n < len(queries) && full == nil && why == notEnded {
		full, why = c.answer(work, n)
		n++
	}
	work.handler.End()
	clear(work.queries)
	c.tcpWork.put(work)
	if why != notEnded {
		c.flush()
		return n, why
	}
	return n, c.writeBatch(full)
}

// answer enqueues the reply to one query, or leaves it to a goroutine that may wait. It gives
// back the batch that became full.
func (c *tcpConn) answer(work *workspace, i int) (full []byte, why ending) {
	query := work.queries[i]
	reply, verdict := work.handler.Handle(i, work.out, &c.transport)
	if verdict == Wait && c.wait(query) {
		return nil, notEnded
	}
	if verdict == Wait {
		c.metrics.WaitingRefused("tcp")
		reply, verdict = work.handler.HandleWaiting(endedContext(), work.out, query, &c.transport)
	}
	if !sendable(reply, verdict) {
		return nil, endedDropped
	}
	return c.enqueue(reply), notEnded
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
