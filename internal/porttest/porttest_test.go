package porttest_test

import (
	"net"
	"testing"

	"github.com/onecall-mcp/onecall/internal/porttest"
)

// TestReserve: no program listens on a reserved port before the test does, and the test may listen there repeatedly.
func TestReserve(t *testing.T) {
	t.Parallel()
	port, other := porttest.Reserve(t), porttest.Reserve(t)
	if port == other {
		t.Errorf("Reserve returned port %s twice", port)
	}
	address := net.JoinHostPort("127.0.0.1", port)
	for range 3 {
		if c, err := net.Dial("tcp", address); err == nil {
			t.Error("a program listens on the reserved port")
			_ = c.Close()
		}
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		_ = c.Close()
		_ = l.Close()
	}
}
