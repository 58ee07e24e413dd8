package steps

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/onecall-mcp/onecall/fault"
)

// State is where a source stands between its configuration and its functions.
type State string

// The states. A source's functions can be called in StateReady and StateIdle only.
const (
	StateStarting State = "starting" // within its start-up deadline, and not there yet
	StateReady    State = "ready"
	StateIdle     State = "idle"     // not running: its functions are known, and the first call starts it
	StateRetrying State = "retrying" // it failed, and is tried again with back-off
	StateFailed   State = "failed"   // it failed, and is not tried again by itself
	StateDisabled State = "disabled" // by configuration
)

// Status is what is known of a source now.
type Status struct {
	State   State
	Error   *fault.Error // why it is retrying or failed; nil in the other states
	Retry   time.Time    // when it is tried again, while it is retrying; else zero
	Since   time.Time    // since when it has not been there; zero where it is, and where the source does not know: a catalogue does
	Names   string       // how an MCP source reads the names of its tools (resource_action, action_resource, whole), "" when unknown
	Version string       // name and version as the source says them of itself, "" when unknown
}

// Live is a source whose functions come and go while it is open. It starts by itself when it is made.
type Live interface {
	Source
	// Status tells where the source stands now. It leaves StateStarting at the end of its start-up deadline at the latest.
	Status() Status
	// Watch has changed called after each change of Functions or Status, by one goroutine at a time, and never after Close
	// has returned. There is one watcher: a second call replaces the first.
	Watch(changed func())
}

// Attendant is what the one who calls a function offers to it beside its arguments: the function's context carries it.
// Its fields may be nil. They may be used until the call returns, by many goroutines.
type Attendant struct {
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

type attendantKey struct{}

// WithAttendant gives a context that carries a.
func WithAttendant(ctx context.Context, a *Attendant) context.Context {
	return context.WithValue(ctx, attendantKey{}, a)
}

// AttendantOf is the attendant that ctx carries, else one that offers nothing. It is never nil, and must not be changed.
func AttendantOf(ctx context.Context) *Attendant {
	if a, ok := ctx.Value(attendantKey{}).(*Attendant); ok {
		return a
	}
	return &Attendant{}
}

type statusKey struct{}

// withStatus gives the context of a call whose observers are told the HTTP status of a success.
func withStatus(ctx context.Context) context.Context {
	a, status := *AttendantOf(ctx), new(atomic.Int32)
	tell := a.Status
	a.Status = func(code int) {
		status.Store(int32(code))
		if tell != nil {
			tell(code)
		}
	}
	return context.WithValue(WithAttendant(ctx, &a), statusKey{}, status)
}

// AnsweredStatus is the HTTP status of a success, which an observer of the call (Registry.Observe) finds in its context; 0
// if the source did not tell one.
func AnsweredStatus(ctx context.Context) int {
	if status, ok := ctx.Value(statusKey{}).(*atomic.Int32); ok {
		return int(status.Load())
	}
	return 0
}
