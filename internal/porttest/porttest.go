// Package porttest reserves ports for programs that have to be given a number. What can listen on port 0 does that instead.
package porttest

import "testing"

// Reserve returns a port of 127.0.0.1 that belongs to the test until its end: connections to it are refused until the test has a program
// listen there, which may end and be started again. It is reserved in the system, so no other process gets it meanwhile; where a system
// cannot do that, it is one that systems do not give out by themselves.
func Reserve(tb testing.TB) (port string) {
	tb.Helper()
	port, err := reserve(tb)
	if err != nil {
		tb.Fatal("no port is free: ", err)
	}
	return port
}
