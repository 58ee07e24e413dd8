//go:build race

package callcache

const raceEnabled = true
