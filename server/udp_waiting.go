package server

import (
	"bytes"
	"context"
)

// waitingDatagram is a query whose answer needs a lookup, with all that its reply needs.
type waitingDatagram struct {
	socket    *udpSocket
	query     []byte
	sender    *udpSender
	transport Transport
}

// wait hands a query on to a goroutine of its own. With too many waiting already the client
// is told at once that there is no answer, so that it can ask elsewhere.
func (l *udpLoop) wait(i int, query []byte) {
	socket := l.socket
	if !socket.udpWaiting.take() {
		socket.metrics.WaitingRefused("udp")
		reply, verdict := l.handler.HandleWaiting(endedContext(), l.batch.room(), query, &l.transport)
		if verdict == Reply {
			l.batch.reply(i, reply)
		}
		return
	}
	socket.conn.hold()
	waiting := &waitingDatagram{
		socket:    socket,
		query:     bytes.Clone(query),
		sender:    l.batch.sender(i),
		transport: l.transport,
	}
	socket.udpBusy.Go(waiting.answer)
}

func (w *waitingDatagram) answer() {
	socket := w.socket
	defer func() { _ = socket.conn.release() }()
	defer socket.udpWaiting.give()
	work := socket.udpWork.get()
	defer socket.udpWork.put(work)
	ctx, cancel := context.WithTimeout(socket.ctx, socket.limits.WaitTime)
	defer cancel()
	reply, verdict := work.handler.HandleWaiting(ctx, work.out, w.query, &w.transport)
	if verdict == Reply && w.sender.send(reply) != nil {
		socket.countUnsent(1)
	}
}

// endedContext is one that has ended already.
func endedContext() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}
