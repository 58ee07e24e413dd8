//go:build !linux

package porttest

import (
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"testing"
)

// given holds the ports that this process's tests have got.
var given sync.Map

// reserve finds a port on which no program listens. It is below the ports that systems assign to listeners on port 0 and to connections,
// so another program is unlikely to take it before the test uses it.
func reserve(testing.TB) (port string, err error) {
	for range 1000 {
		port = strconv.Itoa(10_000 + rand.IntN(20_000))
		if _, twice := given.LoadOrStore(port, true); twice {
			continue
		}
		var l net.Listener
		if l, err = net.Listen("tcp", "127.0.0.1:"+port); err == nil {
			return port, l.Close()
		}
	}
	return "", err
}
