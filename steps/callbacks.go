package steps

import (
	"context"
	"sync/atomic"

	"github.com/onecall-mcp/onecall/fault"
)

// Callbacks are what a function may use beside its arguments: its context carries them. Their fields may be nil. They may be used until the call returns, by many goroutines.
type Callbacks struct {
	// Caller is who calls; "" is a caller like any other.
	Caller string

	// Keep keeps a JSON value in the caller's result store, and gives the continuation token by which the caller fetches
	// it. nil: there is no store, and what is not in the result is lost.
	Keep func(ctx context.Context, value []byte) (token string, err error)

	// Progress tells how far a call has come; total is 0 when it is unknown.
	Progress func(ctx context.Context, done, total float64, message string)

	// Log passes on a log message of the source: level is a word of RFC 5424 in lower case ("debug" to "emergency"),
	// logger may be "", data is a JSON value.
	Log func(ctx context.Context, level, logger string, data []byte)

	// Verbatim gets the result of an MCP tool as its server wrote it (CallToolResult), also one that says that the tool
	// failed, before the function makes its value of it. It must neither change nor keep it.
	Verbatim func(result []byte)

	// Status tells the HTTP status of a success, where the result does not hold it.
	Status func(code int)

	// Cached tells that the answer came from the call cache, and that the function was not called.
	Cached func()

	// Warn tells the caller of something odd about a call that is made nevertheless. The fault's place lies in the
	// arguments.
	Warn func(*fault.Error)

	// Functions are those that the caller may use: what it is told must speak of no other. nil: not known.
	Functions *Registry
}

type callbacksKey struct{}

// WithCallbacks gives a context that carries c.
func WithCallbacks(ctx context.Context, c *Callbacks) context.Context {
	return context.WithValue(ctx, callbacksKey{}, c)
}

// CallbacksOf gives the callbacks that ctx carries, or empty ones. The result is never nil, and must not be changed.
func CallbacksOf(ctx context.Context) *Callbacks {
	if c, ok := ctx.Value(callbacksKey{}).(*Callbacks); ok {
		return c
	}
	return &Callbacks{}
}

type statusKey struct{}

// withStatus gives the context of a call whose observers are told the HTTP status of a success.
func withStatus(ctx context.Context) context.Context {
	a, status := *CallbacksOf(ctx), new(atomic.Int32)
	tell := a.Status
	a.Status = func(code int) {
		status.Store(int32(code))
		if tell != nil {
			tell(code)
		}
	}
	return context.WithValue(WithCallbacks(ctx, &a), statusKey{}, status)
}

// AnsweredStatus is the HTTP status of a success, which an observer of the call (Registry.Observe) finds in its context; 0
// if the source did not tell one.
func AnsweredStatus(ctx context.Context) int {
	if status, ok := ctx.Value(statusKey{}).(*atomic.Int32); ok {
		return int(status.Load())
	}
	return 0
}

type idempotencyKey struct{}

// idempotency is a key and the header that it is sent in.
type idempotency struct{ header, key string }

// WithIdempotencyKey gives the context of a call whose HTTP request has a header by which its service tells a repetition apart.
func WithIdempotencyKey(ctx context.Context, header, key string) context.Context {
	return context.WithValue(ctx, idempotencyKey{}, idempotency{header, key})
}

// IdempotencyKey is the header and the key that the HTTP request of a call is sent with; "" where there is none.
func IdempotencyKey(ctx context.Context) (header, key string) {
	i, _ := ctx.Value(idempotencyKey{}).(idempotency)
	return i.header, i.key
}
