//go:build race

package main

const raceEnabled = true // the race detector multiplies time and memory
