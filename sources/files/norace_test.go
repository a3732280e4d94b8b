//go:build !race

package files

// slowdown is how much slower than a release the code under test is.
const slowdown = 1
