package steps

import (
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
	Error   *fault.Error // why it is retrying or failed, or what is left out of it; nil: nothing is wrong
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
