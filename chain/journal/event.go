package journal

import (
	"github.com/onecall-mcp/onecall/fault"
)

// Kind says what an event tells.
type Kind string

// The kinds of events.
const (
	Began    Kind = "began"    // a call is about to be made
	Ended    Kind = "ended"    // the call of event Of has ended
	Read     Kind = "read"     // a call of a function that only reads was made and has ended
	StoodIn  Kind = "stood_in" // the step's orElse stands in for the failure of event Of
	Sent     Kind = "sent"     // the run begins or is resumed, with Chain
	Waits    Kind = "waits"    // the run has stopped before calls that need approval
	Approved Kind = "approved" // the calls that Approval stands for may be made, each once
	Denied   Kind = "denied"   // they may not
	Assumed  Kind = "assumed"  // the outcome of event Of is Outcome, as the caller says
)

// Event is one thing that happened in a run. Zero fields do not apply.
type Event struct {
	N    int // its number in the run, from 1
	Kind Kind
	At   int64 // microseconds since 1970
	Of   int   // the number of the event that it is about

	Place     string   // of a call's step: 3, 3[7], 3[7].1
	Function  string   // by its canonical name
	Effect    string   // write or destroy; "" reads
	Guessed   bool     // nobody declared the effect
	MAC       []byte   // of the function and its arguments as sent, see Journal.MAC
	Ordinal   int      // among the run's calls with this MAC, from 0
	Attempt   int      // further attempts at it
	Key       string   // its idempotency key
	KeyUntil  int64    // until when the key protects from a repetition, in microseconds since 1970; 0: always
	Undoes    int      // the number of the event with which the call ended that this one takes back; if it did not end, began
	Scope     string   // of the first Sent: of the run, see Start
	Approvals []string // of Waits, Approved and Denied: the calls, as Approval names them

	Outcome fault.Outcome // of a call that writes
	Code    fault.Code    // of a call that failed
	Took    int64         // microseconds
	Bytes   int           // of the result
	Tokens  int           // of the result, estimated

	// What is encrypted, and read only by what resumes, undoes or saves a run.
	Result []byte // of a call, before select
	Undo   []byte // {"fn","args"} that takes the call back, resolved, or {"fn","error"} where it cannot be
	Chain  []byte // of Sent: the chain as it is from now on
	Args   []byte // of calls that wait for approval; of a call that is made: as people may see them, if they are kept

	sent []byte // the arguments of a read whose MAC is made when it is written; nil: of no such
}

// Writes reports whether the call may change something.
func (e *Event) Writes() bool { return e.Effect != "" }
