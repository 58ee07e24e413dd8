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

// ServeStdio serves one client that writes one message a line to in and reads from out, until in ends or ctx is done; then
// running calls have Grace to end and to be answered. If in ends while sources are starting, Grace begins once they have started,
// after startTimeout at the latest. Nothing else may write to out.
func (s *Server) ServeStdio(ctx context.Context, in io.ReadCloser, out io.WriteCloser, caller *steps.Caller) error {
	known := *caller
	known.Rights = known.Rights.WithDefaultTier()
	maxLine := int(s.opts().MaxRequestBytes + envelopeSize)
	shared := &sharedWriter{out: out}
	transport := &drainingTransport{
		Transport:    &sdk.IOTransport{Reader: newLineReader(in, shared, maxLine), Writer: shared, MaxLineLength: maxLine + 1},
		grace:        s.opts().Grace,
		awaitSources: s.handler.AwaitSources,
		closing:      make(chan struct{}),
		clientLeft:   make(chan struct{}),
	}
	target, _ := s.handler.Target(nil)
	ss, err := s.handler.Server(&known, target, true).Connect(
		context.WithValue(context.WithoutCancel(ctx), stdioCallerKey{}, &known), transport, nil)
	if err != nil {
		return fmt.Errorf("serving MCP over stdio: %w", err)
	}
	transport.session.Store(s.session(ss, &known, nil))
	ended := make(chan error, 1)
	go func() { ended <- ss.Wait() }()
	select {
	case err = <-ended:
	case <-transport.clientLeft:
		err = waitForEnd(ended)
	case <-ctx.Done():
		s.calls.Drain(s.opts().Grace)
		transport.flush() // answers of ended calls may not be written yet
		_ = in.Close()
		_ = out.Close()
		go func() { _ = ss.Close() }() // blocks on a client that does not read
		_ = waitForEnd(ended)
		return nil
	}
	if err != nil && !isDisconnect(err) {
		return fmt.Errorf("serving MCP over stdio: %w", err)
	}
	return nil
}

// stdioCallerKey is the key of the caller in the contexts of a stdio client's messages. The first message may be handled before Connect
// has returned.
type stdioCallerKey struct{}

// closeTimeout bounds how long closing a session waits for its client.
const closeTimeout = 2 * time.Second

// waitForEnd waits for the end of a session, for closeTimeout at most; then it returns nil.
func waitForEnd(ended <-chan error) error {
	timer := time.NewTimer(closeTimeout)
	defer timer.Stop()
	select {
	case err := <-ended:
		return err
	case <-timer.C:
		return nil
	}
}

// isDisconnect reports whether an error only means that the client has left.
func isDisconnect(err error) bool {
	for _, end := range []error{io.EOF, io.ErrClosedPipe, syscall.EPIPE, os.ErrClosed} {
		if errors.Is(err, end) {
			return true
		}
	}
	return false
}

// startTimeout bounds how long the requests of a client that has left wait for sources: npx, which may download its program first,
// has two minutes to start.
const startTimeout = 3 * time.Minute

// drainingTransport reports the end of its input only after all earlier requests are answered, or after grace: a client that
// closes its side after its last request gets all answers.
type drainingTransport struct {
	sdk.Transport
	grace        time.Duration             // begins once sources have started
	awaitSources func(ctx context.Context) // Handler.AwaitSources
	closing      chan struct{}             // closed when the server ends the session
	clientLeft   chan struct{}             // closed when the client has left and the answers are written
	session      atomic.Pointer[Session]   // its calls are canceled after grace
	conn         *drainingConn             // set by Connect
}

// flush waits a moment for the answers of ended calls, and ends all other waiting. It is called at most once.
func (a *drainingTransport) flush() {
	a.conn.await(context.Background(), time.Second)
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

// drainingConn tracks the requests that are not answered yet.
type drainingConn struct {
	sdk.Connection
	transport *drainingTransport

	mu        sync.Mutex
	open      map[jsonrpc.ID]bool
	responded bool          // a response was written
	idle      chan struct{} // gets a token when open becomes empty; buffer of one
}

// Read implements sdk.Connection.
func (c *drainingConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	m, err := c.Connection.Read(ctx)
	// A subscription is answered at its end only, and is not waited for.
	if r, ok := m.(*jsonrpc.Request); ok && err == nil && r.IsCall() {
		if r.Method == methodListen {
			r.Params, _ = withTaskIDs(r.Params)
		} else {
			c.mu.Lock()
			c.open[r.ID] = true
			c.mu.Unlock()
		}
	}
	if errors.Is(err, io.EOF) {
		c.finish()
	}
	return m, err
}

// finish waits until sources have started, for at most startTimeout, and then for the open requests. After grace it cancels their calls,
// which are answered as canceled.
func (c *drainingConn) finish() {
	starting, started := context.WithCancel(context.Background())
	defer started()
	go func() {
		defer started()
		c.transport.awaitSources(starting)
	}()
	c.await(starting, startTimeout)
	c.await(context.Background(), c.transport.grace)
	if n := c.transport.session.Load(); n != nil && !c.allAnswered() {
		n.cancelCalls(fault.New(fault.Cancelled, "the client has left, and the call did not end within %v", c.transport.grace))
		c.await(context.Background(), closeTimeout)
	}
	close(c.transport.clientLeft)
}

func (c *drainingConn) allAnswered() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.open) == 0
}

// Write implements sdk.Connection. It drops list changes until the client has its first response.
func (c *drainingConn) Write(ctx context.Context, m jsonrpc.Message) error {
	if r, ok := m.(*jsonrpc.Request); ok && !r.IsCall() && r.Method == "notifications/tools/list_changed" && !c.isGreeted() {
		return nil
	}
	err := c.Connection.Write(ctx, m)
	if r, ok := m.(*jsonrpc.Response); ok {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.responded = true
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

func (c *drainingConn) isGreeted() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.responded
}

// await waits until all requests are answered or ctx ends, for at most limit.
func (c *drainingConn) await(ctx context.Context, limit time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for !c.allAnswered() {
		select {
		case <-c.idle:
		case <-ctx.Done():
			return
		case <-c.transport.closing:
			return
		}
	}
}
