package scenarios

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// orderLimitZ is the normal quantile of one in a million: how seldom a fair server is
// called unfair.
const orderLimitZ = 4.75

// order does "order NAME TYPE [count=N]": the question N times with random IDs, N times
// with one ID, always from one socket, so that what is cached is what is judged. Below
// it: "first uniform", "pairs uniform" (ordered pairs of the first two), "first
// ADDRESS=WEIGHT …", and for answers that are cut "drawn uniform": what stands first is
// drawn from all records ever seen.
func (r *run) order(ctx context.Context, words []string, body []Line) error {
	set, rest, err := parseSettings(words, "count")
	if err != nil {
		return err
	}
	count, err := set.number("count", 3000)
	if err != nil {
		return err
	}
	questions, err := parseQuestions(append(rest, "udp"), r.dns)
	if err != nil {
		return err
	}
	for _, sameID := range []bool{false, true} {
		orders, err := r.sampleOrders(ctx, &questions[0], count, sameID)
		if err != nil {
			return err
		}
		for _, line := range body {
			if err := checkOrder(orders, line); err != nil {
				return fmt.Errorf("line %d: one ID for all: %t: %w", line.Number, sameID, err)
			}
		}
	}
	return nil
}

// sampleOrders asks count times and returns the data of ANSWER, in the order of each
// reply.
func (r *run) sampleOrders(ctx context.Context, q *question, count int, sameID bool) ([][]string, error) {
	orders := make([][]string, 0, count)
	var conn conn
	var packet []byte
	for i := range count {
		var err error
		if i%1000 == 0 { // a socket has one deadline
			if conn != nil {
				conn.Close()
			}
			if conn, err = dial(ctx, "udp", q.server); err != nil {
				return nil, err
			}
			defer conn.Close()
		}
		if packet == nil || !sameID {
			if packet, err = q.packet(); err != nil {
				return nil, err
			}
		}
		reply, err := askOn(conn, q, packet)
		r.last = reply
		if err != nil {
			return nil, fmt.Errorf("question %d: %w", i+1, err)
		}
		orders = append(orders, allData(reply.msg.Answer))
	}
	return orders, nil
}

func askOn(c conn, q *question, packet []byte) (*reply, error) {
	if err := c.send(packet); err != nil {
		return nil, err
	}
	wire, err := c.receive()
	if err != nil {
		return nil, err
	}
	reply, err := newReply(packet, wire, q.server, q.transport, 0)
	if err == nil {
		err = checkAlways(q, reply)
	}
	return reply, err
}

func checkOrder(orders [][]string, line Line) error {
	if line.Text == "drawn uniform" {
		return chiSquare("first places", places(orders, 1), uniform(everSeen(orders), 1))
	}
	all := orders[0]
	for _, order := range orders {
		if len(order) < 2 {
			return fmt.Errorf("an answer of %d records has no order", len(order))
		}
		if err := wantSet("records of each answer", order, all); err != nil {
			return err
		}
	}
	switch {
	case line.Text == "first uniform":
		return chiSquare("first places", places(orders, 1), uniform(all, 1))
	case line.Text == "pairs uniform":
		return chiSquare("first pairs", places(orders, 2), uniform(all, 2))
	case line.Words[0] == "first" && len(line.Words) > 1:
		expected, err := weights(line.Words[1:])
		if err != nil {
			return err
		}
		return chiSquare("first places", places(orders, 1), expected)
	}
	return fmt.Errorf("unknown expectation %q", line.Text)
}

// everSeen are the records of all answers.
func everSeen(orders [][]string) []string {
	seen := map[string]bool{}
	for _, order := range orders {
		for _, record := range order {
			seen[record] = true
		}
	}
	return slices.Collect(maps.Keys(seen))
}

// places counts what stands in the first n places.
func places(orders [][]string, n int) map[string]int {
	counts := map[string]int{}
	for _, order := range orders {
		counts[strings.Join(order[:n], " ")]++
	}
	return counts
}

// uniform gives each record, or each ordered pair, the same chance.
func uniform(records []string, n int) map[string]float64 {
	chances := map[string]float64{}
	for _, a := range records {
		if n == 1 {
			chances[a] = 1
			continue
		}
		for _, b := range records {
			if a != b {
				chances[a+" "+b] = 1
			}
		}
	}
	return chances
}

func weights(words []string) (map[string]float64, error) {
	chances := map[string]float64{}
	for _, word := range words {
		address, weight, _ := strings.Cut(word, "=")
		if _, err := netip.ParseAddr(address); err != nil {
			return nil, err
		}
		w, err := strconv.ParseFloat(weight, 64)
		if err != nil || w <= 0 {
			return nil, fmt.Errorf("%q: want ADDRESS=WEIGHT", word)
		}
		chances[address] = w
	}
	return chances, nil
}

// chiSquare compares counts with the chances (in any unit) by Pearson's test, the limit
// by the Wilson-Hilferty approximation.
func chiSquare(what string, counts map[string]int, chances map[string]float64) error {
	total, sum := 0, 0.0
	for key, n := range counts {
		if chances[key] == 0 {
			return fmt.Errorf("%s: %q should never be there", what, key)
		}
		total += n
	}
	for _, chance := range chances {
		sum += chance
	}
	statistic := 0.0
	for key, chance := range chances {
		expected := float64(total) * chance / sum
		if expected < 5 {
			return errors.New("too few questions for this test: want 5 or more of each kind")
		}
		statistic += math.Pow(float64(counts[key])-expected, 2) / expected
	}
	if limit := chiSquareLimit(len(chances) - 1); statistic > limit {
		return fmt.Errorf("%s are not as wanted: chi-square %.1f, limit %.1f, counts %v", what, statistic, limit, counts)
	}
	return nil
}

func chiSquareLimit(freedom int) float64 {
	k := 2.0 / (9 * float64(freedom))
	return float64(freedom) * math.Pow(1-k+orderLimitZ*math.Sqrt(k), 3)
}
