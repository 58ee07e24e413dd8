package transport

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/onecall-mcp/onecall/fault"
)

// tracker counts what is under way, so that a server that is shut down can let it end: calls, and the requests over HTTP that
// any replica could serve, from the moment that they are let in.
type tracker struct {
	life    context.Context // ends when the server has no more patience
	cutting context.CancelCauseFunc

	mu       sync.Mutex
	closing  bool // nothing begins any more
	calls    int
	requests int
	idle     chan struct{} // closed when nothing is under way any more while the server closes
	rests    bool          // idle is closed
}

// endingMessage are what callers read of a server that shuts down, before what became of theirs.
const endingMessage = "the server is shutting down: "

func newTracker() *tracker {
	t := &tracker{idle: make(chan struct{})}
	t.life, t.cutting = context.WithCancelCause(context.Background())
	return t
}

// begin counts one more call or request in n, until end is called. ok is false once the server closes, but for what belongs to
// a request that was let in before.
func (t *tracker) begin(n *int, admitted bool) (end func(), ok bool) {
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
			t.rest()
		}
	}, true
}

// rest tells drain that nothing is under way any more, if so. The caller holds the lock, and the server closes.
func (t *tracker) rest() {
	if !t.rests && t.calls+t.requests == 0 {
		t.rests = true
		close(t.idle)
	}
}

// running is how many calls run.
func (t *tracker) running() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.calls
}

// ending reports whether no call begins any more.
func (t *tracker) ending() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.closing
}

// drain refuses new calls, and waits until those that run have ended, for at most patience; then it cancels them and
// waits a moment for their answers.
func (t *tracker) drain(patience time.Duration) {
	t.mu.Lock()
	t.closing = true
	t.rest()
	t.mu.Unlock()
	select {
	case <-t.idle:
		return
	case <-time.After(patience):
	}
	t.cancelCalls()
	select {
	case <-t.idle:
	case <-time.After(2 * time.Second):
	}
}

// cancelCalls cancels all that runs.
func (t *tracker) cancelCalls() {
	t.cutting(fault.New(fault.Cancelled, endingMessage+"this call did not end in time, and was cancelled"))
}

// codeEnding is the code of the error that a server which shuts down answers; JSON-RPC 2.0, section 5.1 leaves it to servers.
const codeEnding = -32000

// refuseEnding answers a request that is not begun, as the server closes.
func refuseEnding(w http.ResponseWriter, m *message) {
	why := &badMessage{id: m.id, code: codeEnding, message: endingMessage + "nothing of this was done, send it again"}
	w.Header().Set("Retry-After", "1")
	w.Header().Set("Connection", "close") // so that the next one may go elsewhere
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusServiceUnavailable)
	_, _ = w.Write(why.answer()) // a client that does not take it is gone
}

// awaitTime is how long a connection that is just there has to say something, when the server closes.
const awaitTime = time.Second

// newConnections are those of which nothing was handled yet: net/http's Shutdown drops what they have sent.
type newConnections struct{ conns sync.Map }

type connKey struct{}

func (n *newConnections) accepted(ctx context.Context, c net.Conn) context.Context {
	n.conns.Store(c, true)
	return context.WithValue(ctx, connKey{}, c)
}

func (n *newConnections) closed(c net.Conn, state http.ConnState) {
	if state == http.StateClosed || state == http.StateHijacked {
		n.conns.Delete(c)
	}
}

// served has the first request of a connection taken note of.
func (n *newConnections) served(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n.conns.Delete(r.Context().Value(connKey{}))
		next.ServeHTTP(w, r)
	})
}

// await waits until something of each connection was handled, for at most patience. Who has connected and says nothing is let go:
// Shutdown would wait for it.
func (n *newConnections) await(patience time.Duration) {
	for end := time.Now().Add(patience); n.some() && time.Now().Before(end); {
		time.Sleep(5 * time.Millisecond)
	}
	n.conns.Range(func(c, _ any) bool {
		_ = c.(net.Conn).Close()
		return true
	})
}

func (n *newConnections) some() (found bool) {
	n.conns.Range(func(any, any) bool {
		found = true
		return false
	})
	return found
}
