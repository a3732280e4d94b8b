package server

// NewGeneralHandler makes a Handler that answers everything on the general path.
func (s *Answers) NewGeneralHandler() Handler {
	return &general{s.newHandler()}
}

type general struct{ *handler }

func (g *general) Begin(queries [][]byte) {
	g.handler.Begin(queries)
	for i := range queries {
		g.batch.queries[i].ordinary = false
	}
}

// Ordinary says whether a message is one that the fast path reads.
func Ordinary(msg []byte) bool { return new(question).parseOrdinary(msg) }
