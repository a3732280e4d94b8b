//go:build race

package scenarios

// raceEnabled: the tests run with -race, so the program is built with it too.
const raceEnabled = true
