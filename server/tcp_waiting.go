package server

import (
	"bytes"
	"context"
)

// wait hands a query on to a goroutine of its own, and reports false if too many wait already.
func (c *tcpConn) wait(query []byte) bool {
	if !c.takeSlot() {
		return false
	}
	query = bytes.Clone(query)
	c.waiters.Go(func() {
		defer c.giveSlot()
		c.answerWaiting(query)
	})
	return true
}

// answerWaiting writes the reply of one lookup as soon as it is there.
func (c *tcpConn) answerWaiting(query []byte) {
	ctx, cancel := context.WithTimeout(c.ctx, c.limits.WaitTime)
	defer cancel()
	work := c.tcpWork.get()
	reply, verdict := work.handler.HandleWaiting(ctx, work.out, query, &c.transport)
	if !sendable(reply, verdict) {
		c.tcpWork.put(work)
		c.breakOff(endedDropped)
		return
	}
	frame := appendFrame(c.batches.get(reply), reply)
	c.tcpWork.put(work) // before writing, which may take WriteTime
	c.writeBatch(frame)
}

// takeSlot counts a waiting query against the connection's limit and everyone's.
func (c *tcpConn) takeSlot() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiting >= c.limits.WaitingPerConnection || !c.tcpWaiting.take() {
		return false
	}
	c.waiting++
	return true
}

func (c *tcpConn) giveSlot() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting--
	c.tcpWaiting.give()
}
