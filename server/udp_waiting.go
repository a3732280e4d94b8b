package server

import (
	"bytes"
	"context"
	"net/netip"
)

// waitingDatagram is a query whose answer needs a lookup, with all that its reply needs.
type waitingDatagram struct {
	socket         *udpSocket
	query, control []byte
	client         netip.AddrPort // as the socket spells it
	transport      Transport
}

// wait hands a query on to a goroutine of its own. With too many waiting already the client
// is told at once that there is no answer, so that it can ask elsewhere.
func (l *udpLoop) wait(query, control []byte, client netip.AddrPort) {
	socket := l.socket
	if !socket.udpWaiting.take() {
		socket.metrics.WaitingRefused("udp")
		reply, verdict := l.handler.HandleWaiting(endedContext(), l.out, query, &l.transport)
		if verdict == Reply {
			socket.send(reply, control, client)
		}
		return
	}
	waiting := &waitingDatagram{
		socket:    socket,
		query:     bytes.Clone(query),
		control:   bytes.Clone(control),
		client:    client,
		transport: l.transport,
	}
	socket.udpBusy.Go(waiting.answer)
}

func (w *waitingDatagram) answer() {
	socket := w.socket
	defer socket.udpWaiting.give()
	work := socket.udpWork.get()
	defer socket.udpWork.put(work)
	ctx, cancel := context.WithTimeout(socket.ctx, socket.limits.WaitTime)
	defer cancel()
	reply, verdict := work.handler.HandleWaiting(ctx, work.out, w.query, &w.transport)
	if verdict == Reply {
		socket.send(reply, w.control, w.client)
	}
}

// endedContext is one that has ended already.
func endedContext() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}
