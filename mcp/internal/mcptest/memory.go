package mcptest

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
)

// memoryListener accepts connections in memory, which work in a synctest bubble. They have no buffers: a write returns when it has
// been read.
type memoryListener struct {
	port  int
	conns chan net.Conn
	done  context.Context
	close context.CancelFunc
}

func (l *memoryListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done.Done():
		return nil, net.ErrClosed
	}
}

func (l *memoryListener) Close() error {
	l.close()
	return nil
}

func (l *memoryListener) Addr() net.Addr {
	return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: l.port}
}

func (l *memoryListener) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case l.conns <- server:
		return client, nil
	case <-l.done.Done():
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

var (
	memoryPorts atomic.Int64
	inMemory    sync.Map // maps hosts to their *http.Transport
)

// TransportTo returns the transport for requests to a host, whether it is served in memory or not.
func TransportTo(host string) http.RoundTripper {
	if transport, ok := inMemory.Load(host); ok {
		return transport.(*http.Transport)
	}
	return http.DefaultTransport
}

// Dial connects to a host, whether it is served in memory or not.
func Dial(t testing.TB, host string) net.Conn {
	t.Helper()
	dial := (&net.Dialer{}).DialContext
	if transport, ok := inMemory.Load(host); ok {
		dial = transport.(*http.Transport).DialContext
	}
	conn, err := dial(t.Context(), "tcp", host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// ServeMemory is Serve without a socket: requests with TransportTo and connections of Dial reach it.
func ServeMemory(t testing.TB, serve func(ctx context.Context, l net.Listener) error) string {
	t.Helper()
	l := &memoryListener{port: int(100_000 + memoryPorts.Add(1)), conns: make(chan net.Conn)}
	l.done, l.close = context.WithCancel(context.Background())
	host := fmt.Sprintf("127.0.0.1:%d", l.port)
	transport := &http.Transport{DialContext: l.dial}
	inMemory.Store(host, transport)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx, l) }()
	t.Cleanup(func() {
		inMemory.Delete(host)
		transport.CloseIdleConnections()
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("ServeHTTP: %v", err)
		}
	})
	return "http://" + host
}
