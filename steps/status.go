package steps

import (
	"time"

	"github.com/onecall-mcp/onecall/fault"
)

// State is the state of a source.
type State string

// The states. Functions can be called in StateReady and StateIdle only.
const (
	StateStarting State = "starting" // not ready yet, before the start-up deadline
	StateReady    State = "ready"
	StateIdle     State = "idle"     // not running; its functions are known, and the first call starts it
	StateRetrying State = "retrying" // failed; retried with back-off
	StateFailed   State = "failed"   // failed; not retried automatically
	StateDisabled State = "disabled" // disabled by the configuration
	StateLocked   State = "locked"   // there for callers with a credential of their own
)

// Status is the current status of a source.
type Status struct {
	State   State
	Error   *fault.Error // why it is retrying or failed, or which functions are left out; nil: no problem
	Retry   time.Time    // the next attempt in StateRetrying; else zero
	Since   time.Time    // when it became unavailable; zero if it is available or the source does not know (a catalog does)
	Names   string       // how an MCP source splits its tool names (resource_action, action_resource, whole); "" if unknown
	Version string       // name and version that the source reports; "" if unknown
}

// Live is a source whose functions change while it is open. It starts when it is created.
type Live interface {
	Source
	// Status returns the current status. It leaves StateStarting at the start-up deadline at the latest.
	Status() Status
	// Watch registers changed, which is called after each change of Functions or Status, by one goroutine at a time, and
	// never after Close has returned. A second call replaces the first.
	Watch(changed func())
}
