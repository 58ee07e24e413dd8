package redistest

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// Proxy is a server between a client and a server, or a fake server.
type Proxy struct {
	net.Listener
	serve func(client net.Conn)
	open  sync.WaitGroup
}

// NewProxy listens on loopback until the test ends. It calls serve for each connection and closes the connection when serve returns.
func NewProxy(tb testing.TB, serve func(client net.Conn)) *Proxy {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	p := &Proxy{Listener: l, serve: serve}
	p.open.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.open.Go(func() {
				defer c.Close()
				serve(c)
			})
		}
	})
	tb.Cleanup(func() {
		_ = l.Close()
		p.open.Wait()
	})
	return p
}

// Address returns the proxy's host and port.
func (p *Proxy) Address() string { return p.Addr().String() }

// Forward returns a proxy that passes on a server's answers in pieces of that many bytes, with a pause before each.
func Forward(tb testing.TB, to string, piece int, pause time.Duration) *Proxy {
	return NewProxy(tb, func(client net.Conn) {
		server, err := net.Dial("tcp", to)
		if err != nil {
			return
		}
		defer server.Close()
		go func() {
			_, _ = io.Copy(server, client)
			_ = server.Close()
		}()
		buffer := make([]byte, piece)
		for {
			n, err := server.Read(buffer)
			time.Sleep(pause)
			if _, failed := client.Write(buffer[:n]); err != nil || failed != nil {
				return
			}
		}
	})
}

// Gate is a proxy that delays a server's answers until the test calls Open: on each connection it passes on the first bytes, then one
// byte at a time.
type Gate struct {
	*Proxy
	Reached chan struct{} // receives a value for each connection that has reached the gate, up to a hundred
	Open    func()
}

// NewGate returns a Gate to a server that passes on that many bytes of each connection at once.
func NewGate(tb testing.TB, to string, passes int64) *Gate {
	opened := make(chan struct{})
	g := &Gate{Reached: make(chan struct{}, 100), Open: sync.OnceFunc(func() { close(opened) })}
	g.Proxy = NewProxy(tb, func(client net.Conn) {
		server, err := net.Dial("tcp", to)
		if err != nil {
			return
		}
		defer server.Close()
		go func() {
			_, _ = io.Copy(server, client)
			_ = server.Close()
		}()
		if _, err := io.CopyN(client, server, passes); err != nil {
			return
		}
		if _, err := io.CopyN(client, server, 1); err != nil {
			return
		}
		g.Reached <- struct{}{}
		for err == nil {
			select {
			case <-opened:
				_, _ = io.Copy(client, server)
				return
			case <-time.After(20 * time.Millisecond):
				_, err = io.CopyN(client, server, 1)
			}
		}
	})
	return g
}
