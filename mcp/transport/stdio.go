package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// ServeStdio serves one client that writes its messages to in, a line each, and reads from out, until in ends or ctx is
// done; then running calls have Grace to end and to be answered. Nothing but the protocol may be written to out.
func (s *Server) ServeStdio(ctx context.Context, in io.ReadCloser, out io.WriteCloser, caller *steps.Caller) error {
	known := *caller
	known.Rights = known.Rights.Settled()
	longest := int(s.o().MaxRequestBytes + envelopeSize)
	shared := &sharedWriter{out: out}
	transport := &drainingTransport{
		Transport: &sdk.IOTransport{Reader: newLineReader(in, shared, longest), Writer: shared, MaxLineLength: longest + 1},
		grace:     s.o().Grace,
		closing:   make(chan struct{}),
		left:      make(chan struct{}),
	}
	target, _ := s.handler.Target(nil)
	ss, err := s.handler.Server(&known, target, true).Connect(context.WithoutCancel(ctx), transport, nil)
	if err != nil {
		return fmt.Errorf("serving MCP over stdio: %w", err)
	}
	transport.session.Store(s.session(ss, &known, nil))
	ended := make(chan error, 1)
	go func() { ended <- ss.Wait() }()
	select {
	case err = <-ended:
	case <-transport.left:
		err = waitForEnd(ended)
	case <-ctx.Done():
		s.calls.drain(s.o().Grace)
		transport.flush() // a call has ended before its answer is written
		_ = in.Close()
		_ = out.Close()
		go func() { _ = ss.Close() }() // it waits for a client that reads nothing
		_ = waitForEnd(ended)
		return nil
	}
	if err != nil && !gone(err) {
		return fmt.Errorf("serving MCP over stdio: %w", err)
	}
	return nil
}

// closeTime bounds how long closing a session waits for its client.
const closeTime = 2 * time.Second

// waitForEnd waits for the end of a session, for closeTime at most; nil: it has not come.
func waitForEnd(ended <-chan error) error {
	timer := time.NewTimer(closeTime)
	defer timer.Stop()
	select {
	case err := <-ended:
		return err
	case <-timer.C:
		return nil
	}
}

// gone reports whether an error only says that the client has left.
func gone(err error) bool {
	for _, end := range []error{io.EOF, io.ErrClosedPipe, syscall.EPIPE, os.ErrClosed} {
		if errors.Is(err, end) {
			return true
		}
	}
	return false
}

// drainingTransport is a transport that reports its end only when all earlier requests are answered, or after grace: a client
// that closes its side after its last request gets all answers.
type drainingTransport struct {
	sdk.Transport
	grace   time.Duration
	closing chan struct{}           // closed when the server itself ends the session
	left    chan struct{}           // closed when the client has left, and nothing is waited for any more
	session atomic.Pointer[Session] // whose calls are cancelled when grace is over
	conn    *drainingConn           // once it is connected
}

// flush waits a moment for the answers of calls that have ended to be written. Then nothing is waited for any more.
func (a *drainingTransport) flush() {
	a.conn.await(time.Second)
	close(a.closing)
}

// Connect implements sdk.Transport.
func (a *drainingTransport) Connect(ctx context.Context) (sdk.Connection, error) {
	conn, err := a.Transport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	a.conn = &drainingConn{Connection: conn, transport: a, open: map[jsonrpc.ID]bool{}, idle: make(chan struct{}, 1)}
	return a.conn, nil
}

// drainingConn knows the requests that are not answered yet.
type drainingConn struct {
	sdk.Connection
	transport *drainingTransport

	mu    sync.Mutex
	open  map[jsonrpc.ID]bool
	spoke bool          // something was answered
	idle  chan struct{} // gets a token when open becomes empty
}

// Read implements sdk.Connection.
func (c *drainingConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	m, err := c.Connection.Read(ctx)
	// A subscription is answered at its end only, and is not waited for.
	if r, ok := m.(*jsonrpc.Request); ok && err == nil && r.IsCall() && r.Method != "subscriptions/listen" {
		c.mu.Lock()
		c.open[r.ID] = true
		c.mu.Unlock()
	}
	if errors.Is(err, io.EOF) {
		c.leave()
	}
	return m, err
}

// leave waits for what is not answered yet. After grace the calls are cancelled, and answered as such.
func (c *drainingConn) leave() {
	c.await(c.transport.grace)
	if n := c.transport.session.Load(); n != nil && !c.answered() {
		n.cancelCalls(fault.New(fault.Cancelled, "the client has left, and the call did not end within %v", c.transport.grace))
		c.await(closeTime)
	}
	close(c.transport.left)
}

func (c *drainingConn) answered() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.open) == 0
}

// Write implements sdk.Connection. A client that has not been greeted yet is not told that a list has changed.
func (c *drainingConn) Write(ctx context.Context, m jsonrpc.Message) error {
	if r, ok := m.(*jsonrpc.Request); ok && !r.IsCall() && r.Method == "notifications/tools/list_changed" && !c.greeted() {
		return nil
	}
	err := c.Connection.Write(ctx, m)
	if r, ok := m.(*jsonrpc.Response); ok {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.spoke = true
		delete(c.open, r.ID)
		if len(c.open) == 0 {
			select {
			case c.idle <- struct{}{}:
			default:
			}
		}
	}
	return err
}

func (c *drainingConn) greeted() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.spoke
}

// await waits until all is answered, for at most patience.
func (c *drainingConn) await(patience time.Duration) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for !c.answered() {
		select {
		case <-c.idle:
		case <-timer.C:
			return
		case <-c.transport.closing:
			return
		}
	}
}
