package steps

import (
	"context"
	"sync/atomic"

	"github.com/onecall-mcp/onecall/fault"
)

// Callbacks hold what a function may use besides its arguments. The context of a call carries them. Each field may be nil. Many goroutines
// may use them until the call returns.
type Callbacks struct {
	// Caller is the caller's ID; "" is also a valid ID.
	Caller string

	// Keep stores a JSON value in the caller's result store and returns the continuation token that fetches it. nil: there
	// is no store.
	Keep func(ctx context.Context, value []byte) (token string, err error)

	// Kept returns the value of a live continuation token of the caller, which must not be changed; token_expired for any other token. nil:
	// there is no store.
	Kept func(ctx context.Context, token string) (value []byte, err error)

	// Blocks are the blocks of the run; see KeepBlock. nil: there is no run.
	Blocks *Blocks

	// Progress reports how far a call has come; total is 0 if it is unknown.
	Progress func(ctx context.Context, done, total float64, message string)

	// Log forwards a log message of the source: level is a word of RFC 5424 in lower case ("debug" to "emergency"), logger
	// may be "", data is a JSON value.
	Log func(ctx context.Context, level, logger string, data []byte)

	// Verbatim receives the result of an MCP tool as its server wrote it (CallToolResult), failures included, before the
	// function converts it. Verbatim must not change or retain the result.
	Verbatim func(result []byte)

	// Status reports the HTTP status of a success if the result does not contain it.
	Status func(code int)

	// Cached reports that the answer came from the call cache and the function was not called.
	Cached func()

	// Warn reports a problem that does not stop the call. The fault's At is a position in the arguments.
	Warn func(*fault.Error)

	// Labels are those of the arguments, if flow rules name them. A function that keeps what it is given keeps its labels, too.
	Labels []Label

	// Functions are the functions that the caller may use. Messages to the caller must not name other functions. nil: not known.
	Functions *Registry

	scrubber Scrubber // of the blocks that the call returns; nil: nothing is removed
}

type callbacksKey struct{}

// WithCallbacks returns a context that carries c.
func WithCallbacks(ctx context.Context, c *Callbacks) context.Context {
	return context.WithValue(ctx, callbacksKey{}, c)
}

// CallbacksOf returns the callbacks that ctx carries, or empty ones. The result is never nil and must not be changed.
func CallbacksOf(ctx context.Context) *Callbacks {
	if c, ok := ctx.Value(callbacksKey{}).(*Callbacks); ok {
		return c
	}
	return &Callbacks{}
}

type reportKey struct{}

// report is what a call reported of its answer.
type report struct {
	status atomic.Int32
	cached atomic.Bool
}

// withReport returns a context that records for observers what the call reports of its answer.
func withReport(ctx context.Context) context.Context {
	callbacks, seen := *CallbacksOf(ctx), &report{}
	reportStatus, reportCached := callbacks.Status, callbacks.Cached
	callbacks.Status = func(code int) {
		seen.status.Store(int32(code))
		if reportStatus != nil {
			reportStatus(code)
		}
	}
	callbacks.Cached = func() {
		seen.cached.Store(true)
		if reportCached != nil {
			reportCached()
		}
	}
	return context.WithValue(WithCallbacks(ctx, &callbacks), reportKey{}, seen)
}

// AnsweredStatus returns the HTTP status of a success, for an observer of the call (Registry.Observe); 0 if the source did
// not report one.
func AnsweredStatus(ctx context.Context) int {
	if seen, ok := ctx.Value(reportKey{}).(*report); ok {
		return int(seen.status.Load())
	}
	return 0
}

// AnsweredFromCache reports whether the call cache answered, for an observer of the call.
func AnsweredFromCache(ctx context.Context) bool {
	seen, ok := ctx.Value(reportKey{}).(*report)
	return ok && seen.cached.Load()
}

type idempotencyKey struct{}

// idempotency is a key and the name of the header that carries it.
type idempotency struct{ header, key string }

// WithIdempotencyKey returns the context of a call whose HTTP request carries key in header, so that the service recognizes
// a repetition.
func WithIdempotencyKey(ctx context.Context, header, key string) context.Context {
	return context.WithValue(ctx, idempotencyKey{}, idempotency{header, key})
}

// IdempotencyKey returns the header and the key of a call's HTTP request; "" if there is none.
func IdempotencyKey(ctx context.Context) (header, key string) {
	i, _ := ctx.Value(idempotencyKey{}).(idempotency)
	return i.header, i.key
}
