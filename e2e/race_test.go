//go:build e2e && race

package e2e

const raceEnabled = true // the race detector multiplies time and memory
