package journal

import (
	"github.com/onecall-mcp/onecall/fault"
)

// Kind is the kind of an event.
type Kind string

// The kinds of events.
const (
	Began     Kind = "began"    // a call is about to be made
	Ended     Kind = "ended"    // the call of event Of has ended
	Read      Kind = "read"     // a call of a function that only reads has ended
	Defaulted Kind = "stood_in" // orElse replaced the failure of event Of
	Sent      Kind = "sent"     // the run began or was resumed, with Chain
	Waits     Kind = "waits"    // the run stopped before calls that need approval
	Approved  Kind = "approved" // the calls in Approvals may be made, each once
	Denied    Kind = "denied"   // the calls in Approvals must not be made
	Handed    Kind = "handed"   // the run is handed to workers, which take it over
	Assumed   Kind = "assumed"  // the caller says that the outcome of event Of is Outcome
)

// Event is one thing that happened in a run. Fields that do not apply are zero.
type Event struct {
	N    int // its number in the run, from 1
	Kind Kind
	At   int64 // microseconds since 1970
	Of   int   // the number of the event that it refers to

	StepPath      string   // the path of a call's step: 3, 3[7], 3[7].1
	Function      string   // the canonical name
	Effect        string   // write or destroy; "": it reads
	EffectAssumed bool     // the function does not declare its effect
	MAC           []byte   // of the function and its arguments as sent, see Journal.MAC
	Ordinal       int      // among the run's calls with this MAC, from 0
	Attempt       int      // 0: the first
	Key           string   // the idempotency key
	KeyUntil      int64    // when the service forgets the key, in microseconds since 1970; 0: never
	Undoes        int      // the number of the event that ended the call that this one undoes, or that began it if it did not end
	Scope         string   // of the first Sent: the run's scope, see Start
	Approvals     []string // of Waits, Approved and Denied: the names of the approvals

	Outcome fault.Outcome // of a call that writes
	Code    fault.Code    // of a call that failed
	Took    int64         // microseconds
	Bytes   int           // of the result
	Tokens  int           // of the result, estimated

	// Encrypted, and read only to resume, undo or save a run.
	Result []byte // of a call, before select
	Undo   []byte // {"fn","args"} of the call that undoes it, resolved, or {"fn","error"} if it cannot be resolved
	Chain  []byte // of Sent: the chain from now on
	Args   []byte // of calls that wait for approval; of a call that was made: Call.Shown

	readArgs []byte // of a read whose MAC is computed when it is written; else nil
}

// Writes reports whether the call may change something.
func (e *Event) Writes() bool { return e.Effect != "" }
