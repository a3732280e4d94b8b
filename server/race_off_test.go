//go:build !race

package server_test

const raceBuilt = false
