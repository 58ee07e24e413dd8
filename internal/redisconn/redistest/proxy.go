package redistest

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// Proxy is a server that stands between a client and a real server, or is itself a fake server.
type Proxy struct {
	net.Listener
	running sync.WaitGroup // the accept loop and the connections
}

// NewProxy listens on loopback until the test ends. It calls serve for each connection and closes the connection when serve returns.
func NewProxy(tb testing.TB, serve func(client net.Conn)) *Proxy {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	p := &Proxy{Listener: l}
	p.running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.running.Go(func() {
				defer c.Close()
				serve(c)
			})
		}
	})
	tb.Cleanup(func() {
		_ = l.Close()
		p.running.Wait()
	})
	return p
}

// Address returns the proxy's host and port.
func (p *Proxy) Address() string { return p.Addr().String() }

// Forward returns a proxy in front of a server; to is the server's address. It passes on the server's answers in pieces of at most piece
// bytes, with a pause before each piece.
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
			n, readErr := server.Read(buffer)
			time.Sleep(pause)
			if _, err := client.Write(buffer[:n]); err != nil || readErr != nil {
				return
			}
		}
	})
}

// Gate is a proxy that holds back a server's answers until the test calls Open. On each connection it passes on a number of bytes at once,
// and the rest one byte at a time until Open is called.
type Gate struct {
	*Proxy
	Reached chan struct{} // receives a value when a connection has passed on its first bytes and one more; it buffers 100 values
	Open    func()
}

// NewGate returns a Gate in front of a server; to is the server's address. passes is the number of bytes that the Gate passes on at once at
// the beginning of each connection.
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
