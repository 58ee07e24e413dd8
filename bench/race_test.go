//go:build race

package bench

const raceEnabled = true // the race detector multiplies memory
