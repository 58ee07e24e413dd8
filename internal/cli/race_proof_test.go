//go:build race

package cli

const raceEnabled = true // the race detector multiplies time and memory
