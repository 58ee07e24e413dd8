package mcp

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// exchange is one request on its way. The context that the request is made with carries it through the SDK, so that the
// layers below can put down here what they learn of it.
type exchange struct {
	// stub makes the result that the SDK decodes in place of the real one; nil: the SDK gets the real one.
	stub func(result gjson.Result) []byte

	cancel context.CancelFunc // ends the call with its session; nil: the session does that itself

	notes chan note // progress and log messages on their way to the callbacks; nil: nobody listens
	told  chan struct{}

	mu      sync.Mutex
	result  []byte        // the raw result
	err     *gjson.Result // the raw error
	broken  *fault.Error  // why the answer cannot be used
	reached bool          // the request may have reached the server
	taken   bool          // the server has begun to answer it: nothing that comes later can have kept it from the server
	status  int           // of the HTTP answer that refused it; 0: none did
	cause   error         // why the HTTP request came to nothing
	down    bool          // the server could not be reached for the rest of its answer

	rest chan struct{} // closed when the stream of the answer has been read to its end; nil: there is none

	direct bool          // errors of the server are handed on as they came, not told in other words
	done   chan struct{} // closed when there is an answer, or will be none; nil: nobody waits for it here
	ended  bool          // it is closed

	ctx  context.Context    // of the call, for what the server asks and tells in it; nil: the server can do neither
	over context.CancelFunc // ends it
	logs string             // the level of log messages that a client without sessions asks for; "": none. Set before it is sent

	id, token, turn int64 // under tap.mu; turn: the later the request, the higher
}

// note is a progress or log message, or another notification for the client of a link.
type note struct {
	done, total   float64
	message       string
	level, logger string // level "": it tells of progress
	data          []byte
	method        string // of a notification that is handed on as it came; data are its params
}

// maxNotes are kept for callbacks that are slower than the server; further ones are dropped.
const maxNotes = 256

type exchangeKey struct{}

func (x *exchange) in(ctx context.Context) context.Context {
	return context.WithValue(ctx, exchangeKey{}, x)
}

// exchangeOf is the exchange that ctx carries, else nil.
func exchangeOf(ctx context.Context) *exchange {
	x, _ := ctx.Value(exchangeKey{}).(*exchange)
	return x
}

// attended passes the exchange's notes on to the callbacks, on a goroutine that ends with tap.forget. What a link's client
// is to be told goes to notify; nil: there is no such client.
func (x *exchange) attended(ctx context.Context, a *steps.Callbacks, notify func(ctx context.Context, method string, params json.RawMessage)) {
	if a.Progress == nil && a.Log == nil && notify == nil {
		return
	}
	notes, told := make(chan note, maxNotes), make(chan struct{})
	x.notes, x.told = notes, told
	go func() {
		defer close(told)
		for n := range notes {
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

// settle waits until the callbacks have had all that came before the answer.
func (x *exchange) settle(ctx context.Context) {
	if x.told == nil {
		return
	}
	select {
	case <-x.told:
	case <-ctx.Done():
	}
}

// answered puts down the server's answer.
func (x *exchange) answered(m *message) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.end()
	if m.err.Exists() {
		e := m.err
		x.err = &e
		return
	}
	x.result = []byte(m.result.Raw)
}

// end tells the one who waits that there is nothing more to wait for. The caller holds x.mu.
func (x *exchange) end() {
	if x.done != nil && !x.ended {
		x.ended = true
		close(x.done)
	}
}

// unanswered reports whether the server has answered nothing yet.
func (x *exchange) unanswered() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.result == nil && x.err == nil
}

// cutOff puts down that the stream of the answer ended before it, and nothing says where it goes on.
func (x *exchange) cutOff() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.end()
}

// fail puts down why the answer cannot be used; the first reason counts.
func (x *exchange) fail(f *fault.Error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.end()
	if x.broken == nil {
		x.broken = f
	}
}

// leaves puts down that the request is handed to the network or the pipe.
func (x *exchange) leaves() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.taken {
		x.reached, x.status, x.cause = true, 0, nil // a request may be sent again, after a login
	}
}

// accepted puts down that the server has begun to answer the request.
func (x *exchange) accepted() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.taken = true
}

// refused puts down that the request came to nothing before the server took it up: an HTTP status that says so, or an
// error before anything was sent.
func (x *exchange) refused(status int, cause error, reached bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.taken {
		x.status, x.cause, x.reached = status, cause, reached
	}
}

// interrupted puts down that the rest of the answer cannot be had; down: because the server could not be reached.
func (x *exchange) interrupted(f *fault.Error, down bool) {
	x.fail(f)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.down = down
}

// streamed puts down that the answer comes in a stream, and gives what is to be closed at its end.
func (x *exchange) streamed() chan struct{} {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.rest = make(chan struct{})
	return x.rest
}

// restGrace is how long a call waits for the end of its answer's stream, and maxLingering after how many times in vain no
// call waits any more.
const restGrace, maxLingering = time.Millisecond, 3

// awaitRest waits for the end of the stream that an answer came in: only then can the next call use its connection. It
// mostly comes at once. Some servers keep their streams open; those are not waited for.
func (n *session) awaitRest(x *exchange) {
	x.mu.Lock()
	rest := x.rest
	x.mu.Unlock()
	if rest == nil || n.lingering.Load() >= maxLingering {
		return
	}
	timer := time.NewTimer(restGrace)
	defer timer.Stop()
	select {
	case <-rest:
		n.lingering.Store(0)
	case <-timer.C:
		n.lingering.Add(1)
	}
}
