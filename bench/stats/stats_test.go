package stats

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		name string
		in   []float64
		want float64
	}{
		{"nothing", nil, 0},
		{"one", []float64{3}, 3},
		{"odd", []float64{9, 1, 5}, 5},
		{"even", []float64{4, 1, 2, 10}, 3},
		{"equal", []float64{2, 2, 2, 2}, 2},
	} {
		before := append([]float64(nil), c.in...)
		assert.Equal(t, c.want, Median(c.in), c.name)
		assert.Equal(t, before, c.in, "%s: left as it was", c.name)
	}
	assert.Equal(t, 15*time.Millisecond, Median([]time.Duration{20 * time.Millisecond, 10 * time.Millisecond}))
}

func TestPercentile(t *testing.T) {
	thousand := make([]int, 1000)
	for i := range thousand {
		thousand[999-i] = i + 1 // 1000 … 1
	}
	for _, c := range []struct {
		p    float64
		want int
	}{
		{0, 1}, {0.1, 1}, {50, 500}, {99, 990}, {99.9, 999}, {99.99, 1000}, {100, 1000},
	} {
		assert.Equal(t, c.want, Percentile(thousand, c.p), "p%v", c.p)
	}
	assert.Zero(t, Percentile([]int{}, 99))
	assert.Equal(t, 7, Percentile([]int{7}, 99.99))
}

func TestRatioAndSpread(t *testing.T) {
	assert.Equal(t, 0.5, Ratio(1, 2))
	assert.True(t, math.IsNaN(Ratio(1, 0)))
	assert.Equal(t, 0.2, Spread([]float64{9, 10, 11}))
	assert.Zero(t, Spread([]float64{}))
}
