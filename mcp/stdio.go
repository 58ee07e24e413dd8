package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// ServeStdio serves one client that writes its messages to in, a line each, and reads from out, until in ends or ctx is
// done; then running calls have Grace to end and to be answered. Nothing but the protocol may be written to out.
func (s *Server) ServeStdio(ctx context.Context, in io.ReadCloser, out io.WriteCloser, a Access) error {
	f := s.face(a, s.o.Surface)
	transport := &answering{
		Transport: &sdk.IOTransport{Reader: in, Writer: out, MaxLineLength: int(s.o.MaxRequestBytes + envelope)},
		grace:     s.o.Grace,
	}
	session, err := f.stateful.Connect(context.WithoutCancel(ctx), transport, nil)
	if err != nil {
		return fmt.Errorf("serving MCP over stdio: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- session.Wait() }()
	select {
	case err = <-ended:
	case <-ctx.Done():
		s.calls.drain(s.o.Grace)
		transport.flush() // a call has ended before its answer is written
		_ = in.Close()
		_ = session.Close()
		select {
		case err = <-ended:
			if err != nil && !gone(err) {
				s.o.Log.Info("the connection ended", "error", err)
			}
		case <-time.After(2 * time.Second):
		}
		return nil
	}
	if err != nil && !gone(err) {
		return fmt.Errorf("serving MCP over stdio: %w", err)
	}
	return nil
}

// gone tells whether an error only says that the client has left.
func gone(err error) bool {
	for _, end := range []error{io.EOF, io.ErrClosedPipe, syscall.EPIPE, os.ErrClosed} {
		if errors.Is(err, end) {
			return true
		}
	}
	return false
}

// answering is a transport whose end is told only when all that was asked before it is answered, or after grace: a client
// that closes its side after its last request gets all answers.
type answering struct {
	sdk.Transport
	grace time.Duration
	conn  *answeringConn // once it is connected
}

// flush waits a moment for the answers of calls that have ended to be written.
func (a *answering) flush() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	a.conn.await(ctx)
}

// Connect implements sdk.Transport.
func (a *answering) Connect(ctx context.Context) (sdk.Connection, error) {
	conn, err := a.Transport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	a.conn = &answeringConn{Connection: conn, grace: a.grace, open: map[jsonrpc.ID]int{}, idle: make(chan struct{}, 1)}
	return a.conn, nil
}

// answeringConn counts the requests that are not answered yet.
type answeringConn struct {
	sdk.Connection
	grace time.Duration

	mu   sync.Mutex
	open map[jsonrpc.ID]int
	idle chan struct{} // gets a token when open becomes empty
}

// Read implements sdk.Connection.
func (c *answeringConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	m, err := c.Connection.Read(ctx)
	if r, ok := m.(*jsonrpc.Request); ok && err == nil && r.IsCall() {
		c.mu.Lock()
		c.open[r.ID]++
		c.mu.Unlock()
	}
	if errors.Is(err, io.EOF) {
		c.await(ctx)
	}
	return m, err
}

// Write implements sdk.Connection.
func (c *answeringConn) Write(ctx context.Context, m jsonrpc.Message) error {
	err := c.Connection.Write(ctx, m)
	if r, ok := m.(*jsonrpc.Response); ok {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.open[r.ID]--; c.open[r.ID] <= 0 {
			delete(c.open, r.ID)
		}
		if len(c.open) == 0 {
			select {
			case c.idle <- struct{}{}:
			default:
			}
		}
	}
	return err
}

// await waits until all is answered, or grace is over.
func (c *answeringConn) await(ctx context.Context) {
	timer := time.NewTimer(c.grace)
	defer timer.Stop()
	for {
		c.mu.Lock()
		n := len(c.open)
		c.mu.Unlock()
		if n == 0 {
			return
		}
		select {
		case <-c.idle:
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
	}
}
