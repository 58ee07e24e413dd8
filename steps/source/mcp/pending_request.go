package mcp

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// pendingRequest is a request to the server. The request's context carries it through the SDK, so that the layers below can
// record here what happens to it.
type pendingRequest struct {
	// stub returns a small result for the SDK to decode in place of the real one; nil: the SDK gets the real one.
	stub func(result gjson.Result) []byte

	cancel context.CancelFunc // ends the request with its connection; nil: the connection does that itself

	notifications chan notification // on their way to the callbacks; nil: nobody listens
	delivered     chan struct{}     // closed when the callbacks have received all of them

	mu          sync.Mutex
	result      []byte        // the raw result
	err         *gjson.Result // the raw error
	failure     *fault.Error  // why the answer cannot be used
	sent        bool          // the request may have reached the server
	accepted    bool          // the server has begun to answer: later errors do not mean that it was not reached
	status      int           // HTTP status that refused the request; 0: none
	cause       error         // why the HTTP request failed
	unreachable bool          // the server could not be reached for the rest of its answer

	streamEnd chan struct{} // closed when the answer's stream has been read to its end; nil: no stream

	response *http.Response // answer for the SDK to continue with; nil: none
	posted   bool           // sent without the SDK; set before it is sent

	rawErrors  bool          // errors of the server are returned unchanged
	done       chan struct{} // closed when no more answer will come; nil: nobody waits
	doneClosed bool          // done is closed

	ctx       context.Context    // of the call, for requests and notifications of the server; nil: there are none
	cancelCtx context.CancelFunc // ends it
	logLevel  string             // log level that a client without sessions asks for; "": none. Set before it is sent

	id, token, seq int64 // guarded by tap.mu; later requests have a higher seq
}

// notification is a progress or log message, or another notification for a client.
type notification struct {
	done, total   float64 // level "": progress
	message       string
	level, logger string // level "": it tells of progress
	data          []byte
	method        string // of a notification that is passed on unchanged, with data as its params
}

// maxNotifications bounds the notifications queued for slow callbacks; further ones are dropped.
const maxNotifications = 256

type pendingKey struct{}

func (x *pendingRequest) withContext(ctx context.Context) context.Context {
	return context.WithValue(ctx, pendingKey{}, x)
}

// pendingOf returns the request that ctx carries; nil: none.
func pendingOf(ctx context.Context) *pendingRequest {
	x, _ := ctx.Value(pendingKey{}).(*pendingRequest)
	return x
}

// notifyFunc passes a notification to the client of a session.
type notifyFunc func(ctx context.Context, method string, params json.RawMessage)

// startDelivery passes the request's notifications to the callbacks, on a goroutine that ends with tap.forget. Notifications for
// a client's session go to notify; nil: no such client.
func (x *pendingRequest) startDelivery(ctx context.Context, a *steps.Callbacks, notify notifyFunc) {
	if a.Progress == nil && a.Log == nil && notify == nil {
		return
	}
	queue, delivered := make(chan notification, maxNotifications), make(chan struct{})
	x.notifications, x.delivered = queue, delivered
	go func() {
		defer close(delivered)
		for n := range queue {
			switch {
			case ctx.Err() != nil:
			case n.method != "":
				notify(ctx, n.method, n.data)
			case n.level != "" && a.Log != nil:
				a.Log(ctx, n.level, n.logger, n.data)
			case n.level == "" && a.Progress != nil:
				a.Progress(ctx, n.done, n.total, n.message)
			}
		}
	}()
}

// awaitDelivery waits until the callbacks have received everything that came before the answer.
func (x *pendingRequest) awaitDelivery(ctx context.Context) {
	if x.delivered == nil {
		return
	}
	select {
	case <-x.delivered:
	case <-ctx.Done():
	}
}

// setAnswer records the server's answer.
func (x *pendingRequest) setAnswer(m *message) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.closeDone()
	if m.err.Exists() {
		e := m.err
		x.err = &e
		return
	}
	x.result = []byte(m.result.Raw)
}

// closeDone closes done. The caller holds x.mu.
func (x *pendingRequest) closeDone() {
	if x.done != nil && !x.doneClosed {
		x.doneClosed = true
		close(x.done)
	}
}

// unanswered reports whether no answer has come yet.
func (x *pendingRequest) unanswered() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.result == nil && x.err == nil
}

// finished reports whether an answer has come, or no usable one can come.
func (x *pendingRequest) finished() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.result != nil || x.err != nil || x.failure != nil
}

// handToSDK leaves response for the SDK to continue with. done is closed when no more answer will come.
func (x *pendingRequest) handToSDK(response *http.Response) (done <-chan struct{}) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.response, x.done = response, make(chan struct{})
	return x.done
}

// takeResponse returns the response that handToSDK left; nil: none. x may be nil.
func (x *pendingRequest) takeResponse() *http.Response {
	if x == nil {
		return nil
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	response := x.response
	x.response = nil
	return response
}

// streamCut records that the answer's stream ended early and cannot be resumed.
func (x *pendingRequest) streamCut() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.closeDone()
}

// fail records why the answer cannot be used; the first reason counts.
func (x *pendingRequest) fail(f *fault.Error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.closeDone()
	if x.failure == nil {
		x.failure = f
	}
}

// markSent records that the request is being written to the network or the pipe.
func (x *pendingRequest) markSent() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.accepted {
		x.sent, x.status, x.cause = true, 0, nil // sent again after a login
	}
}

// markAccepted records that the server has begun to answer.
func (x *pendingRequest) markAccepted() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.accepted = true
}

// markRefused records that the server did not take up the request: its HTTP status says so, or an error occurred before anything
// was sent.
func (x *pendingRequest) markRefused(status int, cause error, reached bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.accepted {
		x.status, x.cause, x.sent = status, cause, reached
	}
}

// markInterrupted records that the rest of the answer is lost; down: the server could not be reached.
func (x *pendingRequest) markInterrupted(f *fault.Error, down bool) {
	x.fail(f)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.unreachable = down
}

// beginStream records that the answer comes in a stream, and returns the channel to close at its end.
func (x *pendingRequest) beginStream() chan struct{} {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.streamEnd = make(chan struct{})
	return x.streamEnd
}

// streamEndGrace is how long a call waits for the end of its answer's stream. After maxLingering timeouts in a row only one call
// in lingerEvery waits: the server keeps its streams open, or the machine was busy.
const (
	streamEndGrace = 5 * time.Millisecond
	maxLingering   = 3
	lingerEvery    = 16
)

// awaitsStreamEnd reports whether a call should wait for the end of its answer's stream.
func (n *connection) awaitsStreamEnd() bool {
	before := n.lingering.Load()
	if before < maxLingering || before%lingerEvery == 0 {
		return true
	}
	n.lingering.Add(1)
	return false
}

// awaitStreamEnd waits for the end of the answer's stream, so that the next call can reuse its connection. It usually comes at
// once; some servers keep their streams open.
func (n *connection) awaitStreamEnd(x *pendingRequest) {
	x.mu.Lock()
	rest := x.streamEnd
	x.mu.Unlock()
	if rest == nil || !n.awaitsStreamEnd() {
		return
	}
	timer := time.NewTimer(streamEndGrace)
	defer timer.Stop()
	select {
	case <-rest:
		n.lingering.Store(0)
	case <-timer.C:
		n.lingering.Add(1)
	}
}
