package journal

import (
	"slices"

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
	Denied    Kind = "denied"   // the calls in Approvals must not be made, unless they are approved later
	Handed    Kind = "handed"   // the run is handed to workers, which take it over
	Stopped   Kind = "stopped"  // the run ended and is not ok, for the reason in Code and Message
	Refused   Kind = "refused"  // the chain of the last Sent was refused, for the reason in Code and Message: the one before it holds
	Assumed   Kind = "assumed"  // the caller says that the outcome of event Of is Outcome
	Warned    Kind = "warned"   // a flow rule warns of the way of values that Message tells
	Task      Kind = "task"     // the service carries out the call of event Of as the task in Args
)

// Event is one thing that happened in a run. Fields that do not apply are zero.
type Event struct {
	N    int // its number in the run, from 1
	Kind Kind
	At   int64 // microseconds since 1970
	Of   int   // the number of the event that it refers to

	StepPath      string   // the path of a call's step: 3, 3[7], 3[7].1
	Function      string   // the canonical name of the function
	Effect        string   // the effect of the call, write or destroy; "": it reads
	EffectAssumed bool     // the function does not declare its effect
	MAC           []byte   // identifies the function and its arguments as sent, see Journal.MAC
	Ordinal       int      // the index, from 0, among the run's calls with this MAC
	Attempt       int      // the number of the attempt; 0: the first
	Key           string   // the idempotency key
	KeyUntil      int64    // when the service forgets the key, in microseconds since 1970; 0: never, or there is no key
	Undoes        int      // the number of the event that ended the call that this one undoes, or that began it if it did not end
	Scope         string   // in the first Sent: the run's scope, see Start; in Read: Call.Rights; in Waits: the client, see Journal.Person
	Approvals     []string // in Waits, Approved, Denied and Began: the names of the approvals; in Sent: the credentials that bind the run

	Outcome fault.Outcome // the outcome of a call that writes
	Code    fault.Code    // the code of a call that failed; "": it succeeded
	Took    int64         // how long the call took, in microseconds
	Bytes   int           // the size of the result
	Tokens  int           // the estimated tokens of the result

	// Encrypted, and read only to resume, undo or save a run.
	Result []byte  // the result of a call, before select
	Blocks []Block // whose handles stand in Result
	Undo   []byte  // {"fn","args"} of the call that undoes it, resolved, or {"fn","error"} if it cannot be resolved; in Sent, Start.Labels
	Chain  []byte  // in Sent: the chain from now on
	// Args: in Sent, the values of $state; in Waits, the calls that wait for approval; in Approved and Denied, why; in Task, the id; for a
	// call that was made, Call.Shown
	Args []byte

	// Message says why a call, in Stopped the run, or in Refused the resume failed, or in Warned of what, without secrets and at most
	// maxMessage characters; in Approved and Denied, who decided ("" in Approved: the run's caller, or it is not known). Encrypted, and shown
	// to the run's caller and to operators.
	Message string

	readArgs []byte // the arguments of a read whose MAC is computed when it is written; else nil
}

// isPossible reports whether a run can have written the ordinal and the outcome. Others could not be read safely.
func (e *Event) isPossible() bool {
	return e.Ordinal >= 0 && e.Ordinal < leaseEvents && (e.Outcome == "" || slices.Contains(fault.Outcomes(), e.Outcome))
}

// Decision returns who approved or denied calls, and why. by is "" if the run's caller did, or if it is not known.
func (e *Event) Decision() (by, reason string) { return e.Message, string(e.Args) }

// Writes reports whether the call may change something.
func (e *Event) Writes() bool { return e.Effect != "" }
