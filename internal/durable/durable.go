// Package durable is what the command line knows of an engine that runs chains beyond its own process: what it hands over, what comes
// back, and what a worker does. It knows no engine; the module temporal has one.
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
	// Start starts a batch. A batch with this id that is under way goes on instead. It fails with unavailable if the engine cannot be
	// reached, and with bad_request if it refuses the caller.
	Start(ctx context.Context, b *Batch) error
	// Wait calls progress from time to time (nil: never) until the batch has ended. If ctx ends first, the batch goes on.
	// It fails with token_expired if the engine does not know the batch (any more), and with ErrEnded.
	Wait(ctx context.Context, id string, progress func(Progress)) (Progress, error)
	// Running reports whether a batch is under way.
	Running(ctx context.Context, id string) (bool, error)
	// Queue says where workers of this engine ask for work, for people.
	Queue() string
	// Idle reports whether no worker asks for work. It is false if that is not known.
	Idle(ctx context.Context) bool
	// Cancel asks a batch to end: chains under way are cancelled, and others do not start. It does not wait.
	Cancel(ctx context.Context, id string) error
	// Decided tells a batch that the approval that the chain at a position waits for was given or refused. It reports whether the batch
	// is under way.
	Decided(ctx context.Context, id string, position int) (running bool, err error)
	// Work carries out chains until ctx ends, then lets those under way end for a moment.
	Work(ctx context.Context, w *Worker) error
	Close()
}

// Open opens the engine at a URL, such as temporal://127.0.0.1:7233/default.
type Open func(ctx context.Context, url string, o *Options) (Engine, error)

// ErrEnded is in the error of a Wait for a batch that was ended from outside before its chains: it can be started again.
var ErrEnded = errors.New("the batch was ended before its chains")

// Options are what a URL does not say.
type Options struct {
	Queue   string               // that clients and workers share, unless the URL names one
	Metrics telemetry.Registerer // takes the engine's own; nil: there are none
}

// Batch names chains that are in the Store, in chunks. An engine learns no more of them than this, and how they ended.
type Batch struct {
	ID     string
	Name   string // of its file or saved chain, for people
	Parent string // the batch's run in the journal, which those of its chains are parts of; "": it has none
	Round  int    // how often the batch was started before; the chunks of each round have keys of their own
	Chunks []int  // the number of chains in each chunk
}

// InputKey is the key in the Store of a chunk: an array of Chain.
func (b *Batch) InputKey(chunk int) string {
	return fmt.Sprintf("batch/%s/%d/%d", b.ID, b.Round, chunk)
}

// ResultKey is the key in the Store of the results of an assignment: an array of Result.
func (b *Batch) ResultKey(t Assignment) string {
	return fmt.Sprintf("%s/%d/%d.%d", b.InputKey(t.Chunk), t.Item, t.Number, t.Try)
}

// Progress is how far a batch is.
type Progress struct {
	Total  int // chains
	Ended  int
	Failed int // of Ended
	Waits  int // chains that wait for approval

	NoWorkers bool // there is nobody who could begin

	// Assignments have results, in order: a later one replaces the results of an earlier one for the same chains. If nothing was tried
	// again, the first assignment of each chunk is left out.
	Assignments []Assignment `json:"Turns"` // the name in histories
	Parked      []ParkedChain
}

// ParkedChain is a chain that is not tried again, because its workers died of it repeatedly.
type ParkedChain struct {
	ChunkItem
	Refused bool // no worker died: none may run it, because their journal is another one
}

// Whole stands, in place of a chain's number, for all chains of a chunk.
const Whole = -1

// ChunkItem says where a chain is: its chunk, and its number there, or Whole.
type ChunkItem struct{ Chunk, Item int }

// Assignment is a part of a batch that a worker has carried out.
type Assignment struct {
	ChunkItem
	Number int // how often these chains were assigned before
	Try    int // from 1: workers that died or ended in it have used up the others
}

// FirstAssignment returns the only assignment of a chunk if all goes well.
func FirstAssignment(chunk int) Assignment {
	return Assignment{ChunkItem: ChunkItem{chunk, Whole}, Try: 1}
}

// Chain is a chain with what its caller said of it.
type Chain struct {
	Position int             `json:"position"` // in the input, from 0
	Request  json.RawMessage `json:"request,omitempty"`
	Text     string          `json:"text,omitempty"` // in place of Request: what is no JSON
	Label    string          `json:"label,omitempty"`
	Line     int             `json:"line,omitempty"`
	Name     string          `json:"name,omitempty"` // of the saved chain
	Begun    time.Time       `json:"begun,omitzero"` // in an earlier round, or later; zero: it never was
	Override chain.Override  `json:"override"`
	Journal  string          `json:"journal,omitempty"` // App.JournalID of a single chain's client; "": its batch or run is in the journal
	Caller   *Caller         `json:"caller,omitempty"`  // of a run that was handed over; nil: the operator, with all functions
	Run      string          `json:"run,omitempty"`     // that was handed over in the journal; "": there may be none
	Lease    int64           `json:"lease,omitempty"`   // under which it was
}

// Caller is who a server runs a chain for.
type Caller struct {
	steps.Caller
	Results        budget.Rights // to results, see chain.Caller.Rights
	MaxTotalTokens int           // of the answer; 0: unlimited

	TraceParent, TraceState string // of the request, see steps.Trace
}

// Result is how a chain ended, or what it waits for.
type Result struct {
	Position int             `json:"position"`
	Answer   json.RawMessage `json:"answer"`
	OK       bool            `json:"ok"`
	Error    *fault.Error    `json:"error,omitempty"`
	Faults   []*fault.Error  `json:"faults,omitempty"`
	Warnings []*fault.Error  `json:"warnings,omitempty"`

	Approval bool      `json:"approval,omitempty"` // it waits until somebody decides
	Resumes  time.Time `json:"resumes,omitzero"`   // it pauses, and goes on then; zero: it does not

	// Of a run that was handed over:
	Lease  int64         `json:"lease,omitempty"` // under which it has done something last
	Rights budget.Rights `json:"rights,omitzero"` // of the caller that it was carried out for
}

// ResultOf returns what is passed on of an answer.
func ResultOf(position int, a *chain.Answer) *Result {
	r := &Result{Position: position, Answer: a.JSON, OK: a.OK, Faults: withoutCauses(a.Faults), Warnings: withoutCauses(a.Warnings),
		Resumes: a.Resumes}
	if a.Error != nil {
		r.Error = withoutCauses([]*fault.Error{a.Error})[0]
		r.Approval = a.Error.Code == fault.ApprovalRequired
	}
	return r
}

// ChainAnswer returns the answer that was passed on.
func (r *Result) ChainAnswer() *chain.Answer {
	return &chain.Answer{OK: r.OK, JSON: r.Answer, Error: r.Error, Faults: r.Faults, Warnings: r.Warnings}
}

// withoutCauses returns copies of faults without what only this process understands.
func withoutCauses(faults []*fault.Error) []*fault.Error {
	copies := make([]*fault.Error, len(faults))
	for i, f := range faults {
		c := *f
		c.Err = nil
		copies[i] = &c
	}
	return copies
}

// Worker is what carries out chains.
type Worker struct {
	Jobs int // chains that run at once
	// Run runs a chain as the run with a key, which goes on if it was begun before. first is when it was tried first; zero: now. An error
	// means that nothing can be said of the chain yet, and it is tried again: the journal cannot be reached, or another worker still has
	// the run.
	Run func(ctx context.Context, b *Batch, c *Chain, first time.Time) (*Result, error)
	// Check fails if this worker must not run chains of a batch, as its journal is another one.
	Check func(ctx context.Context, b *Batch) error
	// Renew has a batch and a chunk of it kept as long again. It is called when a chain has waited.
	Renew func(ctx context.Context, b *Batch, chunk int) error
	// End records in the journal, under its run there, that a batch has ended. code is cancelled if it was, and else "".
	End   func(ctx context.Context, parent string, ok bool, code fault.Code) error
	Store Store  // has the chains, and takes the results
	Ready func() // called once the worker asks for work
}

// Store keeps what is too large for the histories of an engine. All who take part in a batch need the same one.
type Store interface {
	// Put stores JSON under a key, in place of what is there.
	Put(ctx context.Context, key string, value []byte) error
	// Get returns what is stored. It fails with token_expired if there is nothing.
	Get(ctx context.Context, key string) ([]byte, error)
}
