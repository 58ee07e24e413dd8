//go:build race

package openapi

const raceEnabled = true // the race detector multiplies time
