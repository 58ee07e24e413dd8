package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/rawjson"
	"github.com/onecall-mcp/onecall/steps"
)

// pendingRequest is a request to the server. The request's context carries it through the SDK, so that the layers below can
// record here what happens to it.
type pendingRequest struct {
	// stub returns a small result for the SDK to decode in place of the real one; nil: the SDK gets the real one.
	stub func(result gjson.Result) []byte

	cancel context.CancelFunc // ends the request with its connection; nil: the connection does that itself

	args []byte // large arguments, in whose place the SDK has argumentsStub; nil: it has them

	alive         func()            // called at each progress; nil: nothing waits for it
	notifications chan notification // queued for the callbacks; nil: there are no listeners
	delivered     chan struct{}     // closed when the callbacks have received all notifications

	mu          sync.Mutex
	result      []byte       // the raw result
	err         *answerError // the error
	failure     *fault.Error // why the answer cannot be used
	sent        bool         // the request may have reached the server
	accepted    bool         // the server has begun to answer, so later errors cannot mean that it was not reached
	status      int          // HTTP status that refused the request; 0: none
	cause       error        // why the HTTP request failed
	unreachable bool         // the server could not be reached again for the rest of its answer

	streamEnd chan struct{} // closed when the answer's stream has been read to its end, or was closed; nil: no stream

	response *http.Response // answer for the SDK to continue with; nil: none
	posted   bool           // sent without the SDK; set before it is sent

	rawErrors  bool          // errors of the server are returned unchanged
	done       chan struct{} // closed when the answer has come or cannot come any more; nil: no goroutine waits
	doneClosed bool          // done is closed

	ctx       context.Context    // for what the server asks or notifies the client of during the call; nil: there is no client
	cancelCtx context.CancelFunc // ends ctx
	logLevel  string             // the log level that a client without sessions asks for; "": none. Set before the request is sent

	id, token, seq int64 // guarded by tap.mu; later requests have a higher seq
}

// notification is a progress or log message, or another notification for a client.
type notification struct {
	done, total   float64 // for progress: how much is done, and of how much
	message       string
	level, logger string // for a log message; level "": it is progress
	data          []byte
	method        string // the method of a notification that is passed on unchanged, with data as its params
}

// maxNotifications bounds the notifications queued for slow callbacks; further ones are dropped.
const maxNotifications = 256

type pendingKey struct{}

func (r *pendingRequest) withContext(ctx context.Context) context.Context {
	return context.WithValue(ctx, pendingKey{}, r)
}

// pendingOf returns the request that ctx carries; nil: none.
func pendingOf(ctx context.Context) *pendingRequest {
	pending, _ := ctx.Value(pendingKey{}).(*pendingRequest)
	return pending
}

// notifyFunc passes a notification to a session's client.
type notifyFunc func(ctx context.Context, method string, params json.RawMessage)

// startDelivery passes the request's notifications to the callbacks, on a goroutine that tap.forget ends. notify receives those for
// a session's client; nil: no client.
func (r *pendingRequest) startDelivery(ctx context.Context, a *steps.Callbacks, notify notifyFunc) {
	if a.Progress == nil && a.Log == nil && notify == nil {
		return
	}
	queue, delivered := make(chan notification, maxNotifications), make(chan struct{})
	r.notifications, r.delivered = queue, delivered
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
func (r *pendingRequest) awaitDelivery(ctx context.Context) {
	if r.delivered == nil {
		return
	}
	select {
	case <-r.delivered:
	case <-ctx.Done():
	}
}

// setAnswer records the server's answer.
func (r *pendingRequest) setAnswer(m *message) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closeDone()
	if m.err.Exists() {
		r.err = readError(m.err)
		return
	}
	r.result = rawjson.Bytes(cmp.Or(m.result.Raw, "null"))
}

// closeDone closes done. The caller holds r.mu.
func (r *pendingRequest) closeDone() {
	if r.done != nil && !r.doneClosed {
		r.doneClosed = true
		close(r.done)
	}
}

// unanswered reports whether no answer has come yet.
func (r *pendingRequest) unanswered() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.result == nil && r.err == nil
}

// finished reports whether an answer has come, or no usable one can come.
func (r *pendingRequest) finished() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.result != nil || r.err != nil || r.failure != nil
}

// handToSDK stores a response for the SDK to continue with. done is closed when the answer has come or cannot come any more.
func (r *pendingRequest) handToSDK(response *http.Response) (done <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.response, r.done = response, make(chan struct{})
	return r.done
}

// takeResponse returns the response that handToSDK stored; nil: none. r may be nil.
func (r *pendingRequest) takeResponse() *http.Response {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	response := r.response
	r.response = nil
	return response
}

// endStream closes done: the answer's stream has ended and cannot be resumed, so no answer can come any more.
func (r *pendingRequest) endStream() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closeDone()
}

// fail records why the answer cannot be used, unless a reason is already recorded.
func (r *pendingRequest) fail(f *fault.Error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closeDone()
	if r.failure == nil {
		r.failure = f
	}
}

// markSent records that the request is being written to the network or the pipe.
func (r *pendingRequest) markSent() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.accepted {
		r.sent, r.status, r.cause = true, 0, nil // sent again after a login
	}
}

// markAccepted records that the server has begun to answer.
func (r *pendingRequest) markAccepted() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.accepted = true
}

// markRefused records that the server did not accept the request: it answered with an HTTP status, or an error occurred. reached:
// the server may have seen the request.
func (r *pendingRequest) markRefused(status int, cause error, reached bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.accepted {
		r.status, r.cause, r.sent = status, cause, reached
	}
}

// markInterrupted records that the rest of the answer is lost. down: the server could not be reached.
func (r *pendingRequest) markInterrupted(f *fault.Error, down bool) {
	r.fail(f)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unreachable = down
}

// beginStream records that the answer comes in a stream, and returns the channel to close at its end.
func (r *pendingRequest) beginStream() chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.streamEnd = make(chan struct{})
	return r.streamEnd
}

// streamEndGrace is how long a call waits for the end of its answer's stream. After maxLateStreams timeouts in a row only one call
// in lateStreamEvery waits: the server keeps its streams open, or the machine was busy.
const (
	streamEndGrace  = 5 * time.Millisecond
	maxLateStreams  = 3
	lateStreamEvery = 16
)

// awaitsStreamEnd reports whether a call should wait for the end of its answer's stream.
func (c *connection) awaitsStreamEnd() bool {
	before := c.lateStreams.Load()
	if before < maxLateStreams || before%lateStreamEvery == 0 {
		return true
	}
	c.lateStreams.Add(1)
	return false
}

// awaitStreamEnd waits for the end of the answer's stream, so that the next call can reuse its HTTP connection. The end usually follows
// immediately; some servers keep their streams open.
func (c *connection) awaitStreamEnd(pending *pendingRequest) {
	pending.mu.Lock()
	streamEnd := pending.streamEnd
	pending.mu.Unlock()
	if streamEnd == nil || !c.awaitsStreamEnd() {
		return
	}
	timer := time.NewTimer(streamEndGrace)
	defer timer.Stop()
	select {
	case <-streamEnd:
		c.lateStreams.Store(0)
	case <-timer.C:
		c.lateStreams.Add(1)
	}
}
