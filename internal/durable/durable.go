// Package durable defines the interface to an engine that runs chains in other processes: what a client hands over, what comes back, and
// what a worker does. The package contains no engine; the module temporal has one.
package durable

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/telemetry"
	"github.com/onecall-mcp/onecall/steps"
)

// Engine runs batches of chains on workers. A single chain is a batch of one. It is safe for concurrent use.
type Engine interface {
	// Start starts a batch. If a batch with this id is under way, that batch continues instead. It fails with unavailable if the engine cannot
	// be reached, and with bad_request if it refuses the caller.
	Start(ctx context.Context, b *Batch) error
	// Wait waits until the batch has ended, and calls progress (nil: never) from time to time until it returns. If ctx ends first, the batch
	// continues. It fails with token_expired if the engine does not know the batch, or no longer does, and with ErrEnded if the batch was
	// ended from outside.
	Wait(ctx context.Context, id string, progress func(Progress)) (Progress, error)
	// Running reports whether a batch is under way.
	Running(ctx context.Context, id string) (bool, error)
	// Queue describes, for people, the queue that workers of this engine take work from.
	Queue() string
	// NoWorkers reports whether no worker asks for work. It returns false if that is not known.
	NoWorkers(ctx context.Context) bool
	// Cancel asks a batch to end: chains under way are cancelled, and others do not start. It does not wait.
	Cancel(ctx context.Context, id string) error
	// SignalDecision tells a batch that the approval for the chain at a position was given or refused. It reports whether the batch is under
	// way.
	SignalDecision(ctx context.Context, id string, position int) (running bool, err error)
	// Work runs chains until ctx ends, then gives those under way a moment to end.
	Work(ctx context.Context, w *Worker) error
	// Close closes the connection to the engine. Batches continue.
	Close()
}

// Open opens the engine at a URL, such as temporal://127.0.0.1:7233/default.
type Open func(ctx context.Context, url string, o *Options) (Engine, error)

// ErrEnded is in the error of Wait if the batch was ended from outside before all of its chains had ended. The batch can be started again.
var ErrEnded = errors.New("the batch was ended before its chains")

// Options has the settings of an engine that are not in its URL.
type Options struct {
	Queue   string               // the queue that clients and workers share, unless the URL names one
	Metrics telemetry.Registerer // takes the engine's metrics; nil: they are not registered
}

// Batch names chains that are in the Store, in chunks. An engine knows nothing else of the chains, except how they ended.
type Batch struct {
	ID     string
	Name   string // the name of its file or saved chain, for people
	Parent string // the batch's run in the journal, the parent of its chains' runs; "": it has none
	Round  int    // how often the batch was started before; each round's chunks have their own keys
	Chunks []int  // the number of chains in each chunk
}

// InputKey returns the key under which the Store has a chunk: an array of Chain.
func (b *Batch) InputKey(chunk int) string {
	return fmt.Sprintf("batch/%s/%d/%d", b.ID, b.Round, chunk)
}

// ResultKey returns the key under which the Store has the results of an assignment: an array of Result.
func (b *Batch) ResultKey(t Assignment) string {
	return fmt.Sprintf("%s/%d/%d.%d", b.InputKey(t.Chunk), t.Item, t.Number, t.Try)
}

// Progress is how far a batch has come.
type Progress struct {
	Total  int // chains
	Ended  int
	Failed int // how many of Ended failed
	Waits  int // chains that wait for approval

	NoWorkers bool // no worker asks for work; the other fields are not known

	// Assignments are those that have results, in order. A later one replaces the results of an earlier one for the same chains. The
	// FirstAssignment of a chunk is left out.
	Assignments []Assignment `json:"Turns"` // the field's name in stored histories
	Parked      []ParkedChain
}

// ParkedChain is a chain that is not tried again, because workers repeatedly died while they ran it.
type ParkedChain struct {
	ChunkItem
	Refused bool // no worker died: no worker may run it, because they use another journal
}

// ParkedFault is the fault of a chain that is not tried again (ParkedChain). remedy is a sentence that ends its message.
func ParkedFault(refused bool, remedy string) *fault.Error {
	if refused {
		return fault.New(fault.BadRequest,
			"no worker could run it because the workers use another journal: clients and workers need the same one. %s",
			remedy)
	}
	return fault.New(fault.Internal, "its workers ended each time, or could not take it on, and it is not tried again: see their logs, and "+
		"check that results.store is the same for all clients and workers. %s", remedy)
}

// Whole stands for all chains of a chunk.
const Whole = -1

// ChunkItem locates a chain: its chunk, and its number in the chunk or Whole.
type ChunkItem struct{ Chunk, Item int }

// Assignment is a part of a batch that a worker has carried out.
type Assignment struct {
	ChunkItem
	Number int // how often these chains had been assigned before
	Try    int // the number of the try, from 1; each worker that died or ended during the assignment used up one
}

// FirstAssignment returns the assignment with which a chunk begins: all its chains, on the first try. If all goes well, the chunk has no
// other.
func FirstAssignment(chunk int) Assignment {
	return Assignment{ChunkItem: ChunkItem{chunk, Whole}, Try: 1}
}

// Chain is a chain with its caller's settings.
type Chain struct {
	Position int             `json:"position"` // the chain's position in the input, from 0
	Request  json.RawMessage `json:"request,omitempty"`
	Text     string          `json:"text,omitempty"` // the chain, in place of Request, if it is not JSON
	Label    string          `json:"label,omitempty"`
	Line     int             `json:"line,omitempty"`
	Name     string          `json:"name,omitempty"` // the name of the saved chain
	Begun    time.Time       `json:"begun,omitzero"` // the earliest time at which it may have begun in an earlier round; zero: it never began
	Override chain.Override  `json:"override"`
	Journal  string          `json:"journal,omitempty"` // App.JournalID of the client if the chain has neither Batch.Parent nor Run; else ""
	Caller   *Caller         `json:"caller,omitempty"`  // the caller whose run was handed over; nil: the operator, with all functions
	Run      string          `json:"run,omitempty"`     // the run in the journal that was handed over; "": there may be none
	Lease    int64           `json:"lease,omitempty"`   // the lease under which Run was handed over
}

// Caller is the caller for whom a server runs a chain.
type Caller struct {
	steps.Caller
	Results        budget.Rights // the caller's rights to results, see chain.Caller.Rights
	MaxTotalTokens int           // the most tokens of the answer; 0: unlimited

	TraceParent, TraceState string // the trace of the request, see steps.Trace
}

// Result is how a chain ended, or what it waits for.
type Result struct {
	Position int             `json:"position"`
	Answer   json.RawMessage `json:"answer"`
	Text     bool            `json:"text,omitempty"` // Answer is a text, as a string
	OK       bool            `json:"ok"`
	Error    *fault.Error    `json:"error,omitempty"`
	Faults   []*fault.Error  `json:"faults,omitempty"`
	Warnings []*fault.Error  `json:"warnings,omitempty"`

	Approval bool      `json:"approval,omitempty"` // it waits for approval
	Resumes  time.Time `json:"resumes,omitzero"`   // when its pause ends; zero: it does not pause

	// Only for a run that was handed over:
	Lease  int64         `json:"lease,omitempty"` // the LastLease of the run
	Rights budget.Rights `json:"rights,omitzero"` // the rights of the caller for whom it ran
}

// ResultOf returns the part of an answer that a worker passes on.
func ResultOf(position int, a *chain.Answer) *Result {
	r := &Result{Position: position, Answer: a.AsJSON(), Text: a.Text, OK: a.OK,
		Faults: withoutCauses(a.Faults), Warnings: withoutCauses(a.Warnings), Resumes: a.Resumes}
	if a.Error != nil {
		r.Error = withoutCauses([]*fault.Error{a.Error})[0]
		r.Approval = a.Error.Code == fault.ApprovalRequired
	}
	return r
}

// ChainAnswer returns the answer that was passed on.
func (r *Result) ChainAnswer() *chain.Answer {
	a := &chain.Answer{OK: r.OK, JSON: r.Answer, Text: r.Text, Error: r.Error, Faults: r.Faults, Warnings: r.Warnings}
	if r.Text {
		var text string
		_ = json.Unmarshal(r.Answer, &text) // ResultOf has quoted it
		a.JSON = []byte(text)
	}
	return a
}

// withoutCauses returns copies of faults without their causes, which only this process understands.
func withoutCauses(faults []*fault.Error) []*fault.Error {
	copies := make([]*fault.Error, len(faults))
	for i, f := range faults {
		c := *f
		c.Err = nil
		copies[i] = &c
	}
	return copies
}

// Worker runs chains.
type Worker struct {
	Jobs int // chains that run at once
	// Run runs a chain as the run under its key, and continues that run if it was begun before. first is the time of the first try; zero: now.
	// An error means that nothing is known of the chain yet and that it is tried again: the journal cannot be reached, or another worker still
	// has the run.
	Run func(ctx context.Context, b *Batch, c *Chain, first time.Time) (*Result, error)
	// Check fails if this worker must not run chains of a batch, because it uses another journal.
	Check func(ctx context.Context, b *Batch) error
	// Renew extends the life of a batch and of one of its chunks. It is called when a chain has waited.
	Renew func(ctx context.Context, b *Batch, chunk int) error
	// End records in the journal, in the run parent, that a batch has ended. code is cancelled if the batch was cancelled, else "".
	End   func(ctx context.Context, parent string, ok bool, code fault.Code) error
	Store Store  // has the chains, and takes the results
	Ready func() // called once the worker asks for work
}

// Store keeps what is too large for the histories of an engine. All clients and workers of a batch need the same Store.
type Store interface {
	// Put stores JSON under a key and replaces what is stored there.
	Put(ctx context.Context, key string, value []byte) error
	// Get returns the JSON under a key. It fails with token_expired if there is none.
	Get(ctx context.Context, key string) ([]byte, error)
}
