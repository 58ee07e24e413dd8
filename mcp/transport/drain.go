package transport

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/onecall-mcp/onecall/fault"
)

// Tracker counts the calls in progress, and the HTTP requests that any replica could serve, so that a shutdown can let them end.
type Tracker struct {
	ctx    context.Context // the context of all calls; canceled when the grace period is over
	cancel context.CancelCauseFunc

	mu         sync.Mutex
	closing    bool // no new work begins
	calls      int
	requests   int
	idle       chan struct{} // closed once the server is closing and nothing is in progress
	idleClosed bool          // idle is closed
}

// closingMessage begins the messages to callers of a server that shuts down.
const closingMessage = "the server is shutting down: "

// NewTracker returns a tracker of nothing.
func NewTracker() *Tracker {
	t := &Tracker{idle: make(chan struct{})}
	t.ctx, t.cancel = context.WithCancelCause(context.Background())
	return t
}

// track adds one to n until done is called. It returns false once the server is closing, unless the call belongs to a request
// that was admitted earlier.
func (t *Tracker) track(n *int, admitted bool) (done func(), ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closing && !admitted {
		return nil, false
	}
	*n++
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if *n--; t.closing {
			t.closeIfIdle()
		}
	}, true
}

// closeIfIdle closes idle if nothing is in progress. The server is closing, and the caller holds t.mu.
func (t *Tracker) closeIfIdle() {
	if !t.idleClosed && t.calls+t.requests == 0 {
		t.idleClosed = true
		close(t.idle)
	}
}

// running returns the number of running calls.
func (t *Tracker) running() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.calls
}

// isClosing reports whether the server is shutting down.
func (t *Tracker) isClosing() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.closing
}

// Drain refuses new calls and waits for those in progress as at a shutdown: for at most Grace, after which they are cancelled. It is for
// a server whose only client has left, since its runs in the background may still be running.
func (s *Server) Drain() { s.calls.Drain(s.opts().Grace) }

// Begin returns a context for work that continues after its request is answered. It ends when Drain cancels calls. Drain waits for the work
// as for a call, until end is called. Begin refuses the work once Drain was called.
func (t *Tracker) Begin(ctx context.Context) (_ context.Context, end func(), refused *fault.Error) {
	untrack, ok := t.track(&t.calls, false)
	if !ok {
		return nil, nil, fault.New(fault.Unavailable, closingMessage+"nothing of this was done, send it again")
	}
	ctx, stop := endWith(context.WithoutCancel(ctx), t.ctx)
	return ctx, func() { stop(); untrack() }, nil
}

// Begin begins work that a shutdown waits for, as Tracker.Begin does.
func (s *Server) Begin(ctx context.Context) (_ context.Context, end func(), refused *fault.Error) {
	return s.calls.Begin(ctx)
}

// Drain refuses new calls and waits for those in progress, for at most grace. Then it cancels the rest and waits a moment for
// their answers.
func (t *Tracker) Drain(grace time.Duration) {
	t.mu.Lock()
	t.closing = true
	t.closeIfIdle()
	t.mu.Unlock()
	select {
	case <-t.idle:
		return
	case <-t.ctx.Done(): // an earlier drain has cancelled the calls
		return
	case <-time.After(grace):
	}
	t.cancelCalls()
	select {
	case <-t.idle:
	case <-time.After(2 * time.Second):
	}
}

// cancelCalls cancels all running calls.
func (t *Tracker) cancelCalls() {
	t.cancel(fault.New(fault.Cancelled, closingMessage+"this call did not end in time, and was cancelled"))
}

// codeClosing is the error code of a server that shuts down; JSON-RPC 2.0, section 5.1 leaves the choice to servers.
const codeClosing = -32000

// refuseClosing refuses a request because the server is shutting down.
func refuseClosing(w http.ResponseWriter, m *message) {
	why := &badMessage{id: m.id, code: codeClosing, message: closingMessage + "nothing of this was done, send it again"}
	w.Header().Set("Retry-After", "1")
	w.Header().Set("Connection", "close") // the next request may go to another replica
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusServiceUnavailable)
	_, _ = w.Write(why.answer()) // an error means that the client has left
}

// firstRequestWait bounds how long a shutdown waits for the first request of a new connection.
const firstRequestWait = time.Second

// newConnections holds the connections that have not delivered a request yet. http.Server.Shutdown drops what they have sent.
type newConnections struct{ conns sync.Map }

type connKey struct{}

func (n *newConnections) add(ctx context.Context, c net.Conn) context.Context {
	n.conns.Store(c, true)
	return context.WithValue(ctx, connKey{}, c)
}

func (n *newConnections) remove(c net.Conn, state http.ConnState) {
	if state == http.StateClosed || state == http.StateHijacked {
		n.conns.Delete(c)
	}
}

// handler removes a connection when its first request arrives.
func (n *newConnections) handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n.conns.Delete(r.Context().Value(connKey{}))
		next.ServeHTTP(w, r)
	})
}

// await waits until every connection has delivered a request, for at most limit, and closes those that have not: Shutdown would
// wait for them.
func (n *newConnections) await(limit time.Duration) {
	for end := time.Now().Add(limit); n.any() && time.Now().Before(end); {
		time.Sleep(5 * time.Millisecond)
	}
	n.conns.Range(func(c, _ any) bool {
		_ = c.(net.Conn).Close()
		return true
	})
}

func (n *newConnections) any() (ok bool) {
	n.conns.Range(func(any, any) bool {
		ok = true
		return false
	})
	return ok
}
