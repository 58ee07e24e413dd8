package mcptest

import (
	"context"
	"net"
	"net/http"
	"testing"
)

// memoryListener accepts connections in memory, which work in a synctest bubble.
type memoryListener struct {
	conns  chan net.Conn
	ctx    context.Context
	cancel context.CancelFunc
}

func (l *memoryListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.ctx.Done():
		return nil, net.ErrClosed
	}
}

func (l *memoryListener) Close() error {
	l.cancel()
	return nil
}

func (l *memoryListener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80} }

// ServeMemory is Serve without sockets: its requests go through client.
func ServeMemory(t testing.TB, serve func(ctx context.Context, l net.Listener) error) (url string, client *http.Transport) {
	t.Helper()
	l := &memoryListener{conns: make(chan net.Conn)}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	client = &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		here, there := net.Pipe()
		select {
		case l.conns <- there:
			return here, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx, l) }()
	t.Cleanup(func() {
		client.CloseIdleConnections()
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("ServeHTTP: %v", err)
		}
	})
	return "http://127.0.0.1", client
}
