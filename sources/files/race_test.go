//go:build race

package files

// slowdown is how much slower than a release the code under test is, at worst.
const slowdown = 20
