package journal

import (
	"encoding/json"
	"fmt"

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
	N    int   `json:"n"` // its number in the run, from 1
	Kind Kind  `json:"k"`
	At   int64 `json:"t"`           // microseconds since 1970
	Of   int   `json:"of,omitzero"` // the number of the event that it is about

	Place     string   `json:"p,omitzero"`  // of a call's step: 3, 3[7], 3[7].1
	Function  string   `json:"f,omitzero"`  // by its canonical name
	Effect    string   `json:"e,omitzero"`  // write or destroy; "" reads
	Guessed   bool     `json:"g,omitzero"`  // nobody declared the effect
	MAC       []byte   `json:"m,omitzero"`  // of the function and its arguments as sent, see Journal.MAC
	Ordinal   int      `json:"o,omitzero"`  // among the run's calls with this MAC, from 0
	Attempt   int      `json:"a,omitzero"`  // further attempts at it
	Key       string   `json:"ik,omitzero"` // its idempotency key
	KeyUntil  int64    `json:"iu,omitzero"` // until when the key protects from a repetition, in microseconds since 1970; 0: always
	Undoes    int      `json:"u,omitzero"`  // the number of the ended event that this call takes back
	Approvals []string `json:"ok,omitzero"` // of Waits, Approved and Denied: the calls, as Approval names them

	Outcome fault.Outcome `json:"w,omitzero"`  // of a call that writes
	Code    fault.Code    `json:"c,omitzero"`  // of a call that failed
	Took    int64         `json:"ms,omitzero"` // microseconds
	Bytes   int           `json:"b,omitzero"`  // of the result
	Tokens  int           `json:"tk,omitzero"` // of the result, estimated

	// What is encrypted, and read only by what resumes, undoes or saves a run.
	Result []byte `json:"-"` // of a call, before select
	Undo   []byte `json:"-"` // {"fn","args"} that takes the call back, resolved
	Chain  []byte `json:"-"` // of Sent: the chain as it is from now on
	Args   []byte `json:"-"` // of calls that wait for approval; of a call that is made: as people may see them, if they are kept
}

// Writes reports whether the call may change something.
func (e *Event) Writes() bool { return e.Effect != "" }

// segment is the plain part of some events.
func encodeEvents(events []Event) ([]byte, error) { return json.Marshal(events) }

func decodeEvents(data []byte) (events []Event, err error) {
	if err := json.Unmarshal(data, &events); err != nil {
		return nil, fmt.Errorf("journal: a segment is malformed: %w", err)
	}
	return events, nil
}
