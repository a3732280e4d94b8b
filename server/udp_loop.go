package server

import "errors"

// udpLoop answers the datagrams of one socket, batch by batch, in one goroutine. It allocates
// nothing for a query that need not wait.
type udpLoop struct {
	socket    *udpSocket
	handler   Handler
	batch     *udpBatch
	transport Transport

	failures failures
	lost     uint32 // datagrams that the system had dropped, as last heard
}

func newUDPLoop(socket *udpSocket, handler Handler) *udpLoop {
	socket.conn.hold()
	return &udpLoop{
		socket:    socket,
		handler:   handler,
		batch:     newUDPBatch(socket.conn, socket.batch),
		transport: Transport{Protocol: UDP},
	}
}

// run ends when the socket is drained after Shutdown, or closed.
func (l *udpLoop) run() {
	defer func() { _ = l.socket.conn.release() }()
	for {
		n, err := l.batch.receive()
		if err != nil {
			if !l.carryOn(err) {
				return
			}
			continue
		}
		l.failures.reset()
		l.answerAll(n)
	}
}

// answerAll replies to the n queries that were read together.
func (l *udpLoop) answerAll(n int) {
	l.handler.Begin(l.batch.packets(n))
	for i := range n {
		l.answer(i)
	}
	l.handler.End()
	l.socket.countUnsent(l.batch.flush())
	l.countLost(l.batch.lost)
}

// answer replies to one query, or leaves it to a goroutine that may wait.
func (l *udpLoop) answer(i int) {
	query := l.batch.query(i, &l.transport)
	reply, verdict := l.handler.Handle(i, l.room(), &l.transport)
	switch verdict {
	case Reply:
		l.batch.reply(i, reply)
	case Wait:
		l.wait(i, query)
	case Drop:
	}
}

// room is memory for one reply. What is enqueued is sent first where it has taken too much.
func (l *udpLoop) room() []byte {
	if l.batch.full() {
		l.socket.countUnsent(l.batch.flush())
	}
	return l.batch.room()
}

// carryOn deals with an error of reading and reports whether to read again. What ICMP or a
// full memory brings never ends the loop.
func (l *udpLoop) carryOn(err error) bool {
	if errors.Is(err, errEnded) {
		return false
	}
	l.socket.metrics.SocketFailed("udp", "read")
	if l.failures.add(l.socket.stopping) {
		l.socket.log.Warn("reading queries fails", "address", l.socket.conn.bound.String(), "error", err)
	}
	return true
}

func (l *udpLoop) countLost(lost uint32) {
	if lost != 0 && lost != l.lost {
		l.socket.metrics.DatagramsDropped(int(lost - l.lost))
		l.lost = lost
	}
}
