// Package porttest reserves ports for programs that must be given a port number. A program that can listen on port 0 does not need it.
package porttest

import "testing"

// Reserve returns a port of 127.0.0.1 that belongs to the test until it ends. Connections are refused until the test starts a program that
// listens there; the program may end and start again. On Linux the system reserves the port, so no other process gets it. Elsewhere it is
// one of the ports that systems do not assign on their own.
func Reserve(tb testing.TB) (port string) {
	tb.Helper()
	port, err := reserve(tb)
	if err != nil {
		tb.Fatal("no port is free: ", err)
	}
	return port
}
