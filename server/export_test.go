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

// Single is a Handler of one query at a time.
type Single struct {
	Handler
	one [1][]byte
}

// Answer is Handle for a batch of one query.
func (s *Single) Answer(out, query []byte, t *Transport) ([]byte, Verdict) {
	s.one[0] = query
	s.Begin(s.one[:])
	reply, verdict := s.Handle(0, out, t)
	s.End()
	return reply, verdict
}

// BreakShuffle makes a Handler panic over every answer that has addresses.
func BreakShuffle(h Handler) Handler {
	h.(*handler).writer.Rand = nil
	return h
}
