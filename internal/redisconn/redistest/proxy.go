package redistest

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// Proxy is a server between a client and a server, or in place of one.
type Proxy struct {
	net.Listener
	serve func(client net.Conn)
	open  sync.WaitGroup
}

// NewProxy listens on loopback until the test ends, and has serve serve each connection, which is closed when it returns.
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

// Address is the proxy's host and port.
func (p *Proxy) Address() string { return p.Addr().String() }

// Forward is a proxy to a server that passes what that answers in pieces of so many bytes, with a pause before each.
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

// Gate is a proxy to a server that passes the beginning of what that answers on each connection, and then a byte now and then
// until it is opened: an answer that takes as long as a test wants.
type Gate struct {
	*Proxy
	Reached chan struct{} // has one for each connection, up to a hundred, on which there was more
	Open    func()
}

// NewGate is a Gate to a server, which passes so many bytes on a connection.
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
