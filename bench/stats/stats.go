// Package stats computes what load tests print: medians over rounds, percentiles over
// samples. All functions leave their arguments as they are, and give 0 of nothing.
package stats

import (
	"cmp"
	"math"
	"slices"
)

// Number is what can be averaged.
type Number interface {
	~int | ~int64 | ~uint64 | ~float64
}

// Median is the middle value, or the mean of the two in the middle.
func Median[T Number](values []T) T {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	switch {
	case n == 0:
		return 0
	case n%2 == 1:
		return sorted[n/2]
	}
	return sorted[n/2-1] + (sorted[n/2]-sorted[n/2-1])/2
}

// Percentile is the smallest value that p percent of all are not above (nearest rank).
func Percentile[T cmp.Ordered](values []T, p float64) T {
	return SortedPercentile(slices.Sorted(slices.Values(values)), p)
}

// SortedPercentile is Percentile of values in ascending order.
func SortedPercentile[T cmp.Ordered](sorted []T, p float64) (value T) {
	if len(sorted) == 0 {
		return value
	}
	const rounding = 1e-9 // 99.9 % of 1,000 is the 999th, not the 1,000th
	rank := int(math.Ceil(p/100*float64(len(sorted)) - rounding))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// Ratio is a over b; NaN where b is 0.
func Ratio[T Number](a, b T) float64 {
	if b == 0 {
		return math.NaN()
	}
	return float64(a) / float64(b)
}

// Spread is how far the values lie apart: (largest - smallest) over the median. It tells
// whether a median over few rounds means anything.
func Spread[T Number](values []T) float64 {
	if len(values) == 0 {
		return 0
	}
	return Ratio(slices.Max(values)-slices.Min(values), Median(values))
}
