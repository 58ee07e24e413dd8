package chain

import (
	"context"
	"slices"
	"time"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/admit"
	"github.com/onecall-mcp/onecall/steps"
)

// Defaults of the limits, all of them ceilings of the server that a chain's own budget may lower.
const (
	DefaultMaxSteps        = 1000
	defaultMaxCalls        = 200_000
	defaultMaxDuration     = 5 * time.Minute
	noMaxDuration          = 365 * 24 * time.Hour
	defaultMaxConcurrency  = 16
	defaultMaxElements     = 100_000
	defaultMaxResultBytes  = 64 << 20
	DefaultMaxChainBytes   = 256 << 20
	defaultMaxRunningBytes = 1 << 30
	DefaultMaxRequestBytes = 4 << 20
	defaultStepTimeout     = 30 * time.Second
)

const (
	maxDepth        = 4 // of inline chains, the outermost chain not counted
	readConcurrency = 8 // of a forEach over functions that only read
)

// Options says what an Engine runs with. Only Functions is required. A zero limit means its default; a limit below zero
// is refused with bad_request. The struct is copied by New.
type Options struct {
	// Functions are what steps may call: a *steps.Registry, or a *steps.Catalog, whose functions come and go. A request
	// has those that are there when it comes; while sources are starting, it waits for names that are not found.
	Functions steps.Provider

	// Counter counts the tokens of answers; nil: o200k_base, unscaled.
	Counter budget.Counter

	// Journal remembers what runs do, so that they can be resumed; nil: nothing is remembered. The engine does not close it.
	Journal *journal.Journal

	// Scope names the environment that this engine's functions act on, where engines of several share a Journal: a run is resumed, undone
	// or found by its key only by an engine of the scope that it began in. "" is a scope like any other.
	Scope string

	// Approve says which calls need approval where their functions do not say it: steps.ApproveNever, ApproveDestroy or
	// ApproveWrite; "": never. Without a Journal none can be.
	Approve string
	// ApproveByPerson has calls approved by Caller.Approve and by Approve only, and not by a chain that is sent again.
	ApproveByPerson bool

	// Results keeps results that do not fit their answer. nil: none is kept, and an answer that does not fit is refused
	// with limit_exceeded. The engine does not close it.
	Results *budget.Results

	// MaxTotalTokens is the server's token budget of an answer, which a chain may lower; 0: none. Not below
	// budget.Least of the counter.
	MaxTotalTokens int
	// ProbeAbove turns a result of more tokens into a probe even where it fits; 0: off.
	ProbeAbove int

	MaxSteps        int           // steps of a chain, inline chains included; 0: 1,000
	MaxCalls        int           // calls of functions by one chain, repetitions included; 0: 200,000
	MaxDuration     time.Duration // of one chain; 0: 5 minutes, -1: no bound
	MaxConcurrency  int           // calls that one step, or one wave of steps, has under way at once; 0: 16
	MaxElements     int           // of a forEach; 0: 100,000
	MaxResultBytes  int64         // of one step's result; 0: 64 MiB
	MaxChainBytes   int64         // of all results that a chain keeps; 0: 256 MiB
	MaxRunningBytes int64         // of what all running chains of all callers hold; 0: 1 GiB, or four times MaxChainBytes where that is more. At least twice MaxChainBytes
	MaxRequestBytes int64         // of a request; 0: 4 MiB
	StepTimeout     time.Duration // of one call, where the step has no timeoutMs; 0: 30 s

	// Admission divides MaxRunningBytes and the processors among callers. Engines with the same Admission share them; nil: the
	// engine has its own.
	Admission Admission

	// LeanAbove is the size in tokens above which the result of a function that is declared as writing is answered in its
	// lean form: what became of it, and a token for the rest. 0: 100; -1: never. Without Results it is never.
	LeanAbove int

	// Rung places functions on a ladder from cheap, 0, to costly; below 0: the function is on none. Steps of different rungs
	// run in the order written, and so do the elements of a forEach over several rungs, so that what is decided of a call does
	// not depend on which of them is faster; and what functions warn of (Warn of steps.Callbacks) stands among the answer's
	// warnings. nil: there is no ladder.
	Rung func(*steps.Entry) int

	// Hoist names members that a chain takes at its top level beside the fields of the contract, such as repoId: they are
	// members of its `common`. The names of the contract are bad_request.
	Hoist []string

	// Observer is told of every request and its steps. nil: nobody is.
	Observer Observer

	// Planned is told the functions that a chain names, each once, after the chain was compiled and before any of it runs. It
	// may be called by many goroutines. nil: nobody is told.
	Planned func([]*steps.Entry)

	// ListHint is the remedy where a name is near to no function: how this engine's callers see which there are. "": none.
	ListHint string

	// Lite is the answer's form where the request does not say it.
	Lite bool

	topFields []string // of a chain, those of Hoist included
}

// Caller is for whom a chain runs. The zero value is the one local user with the engine's own functions.
type Caller struct {
	ID        string           // to whom kept results are bound; "" is a caller like any other
	Rights    budget.Rights    // what the caller may do: with fewer it does not get what it kept with more
	Label     string           // names the request in its answer, as its first member `chain`; a lite answer is then {"chain","result"}. "": none
	Line      int              // of a file, in which the request begins: faults of what is no JSON tell the file's lines; 0: the first
	Chain     string           // names the chain in the journal, where the request does not
	Run       string           // by which logs know the request: its failure has it as `run`. "": it does not
	Functions steps.Provider   // the caller's view; nil: the engine's functions
	Progress  func(Progress)   // called when a step starts, tells how far it is, and ends, never by two goroutines at once; nil: not wanted
	Log       func(LogMessage) // called for what functions log while they run, by any goroutine; nil: not wanted
	Override  Override

	// MaxTotalTokens bounds every answer but that of a fetch, as the server's budget does: it can only lower it, and is never
	// below budget.Least. 0: the server's.
	MaxTotalTokens int
	// Approve asks somebody whether calls may be made that need approval; an error: nobody can be asked now. nil: nobody
	// can be.
	Approve func(ctx context.Context, calls []ApprovalCall) (yes bool, err error)
	// Decision has the request go on with the run that an earlier answer to it had a Question about; nil: it begins a run, or says
	// itself which one goes on. Approve is not asked then.
	Decision *Decision
	// Warnings are the front end's own; they stand first among the answer's warnings, and are given up after them. Answer.Warned
	// reports whether they do.
	Warnings []*fault.Error
}

// Override is what a front end sets over the request, as the command line's flags do.
type Override struct {
	Input          []byte    // a JSON object that replaces members of `input`; nil: none
	Set            []Setting // over Input, in order
	Lite           *bool     // nil: as the request says
	MaxTotalTokens int       // over the request's budget; 0: as the request says
	DryRun         bool      // true: as if the request said it
	Trace          string    // "": as the request says
	ReadOnly       bool      // a step that does more than read is a fault
	WhyReadOnly    string    // and why, with the remedy; "": the tool that the request came to only reads
	Operator       bool      // the run of any caller may be resumed
	Check          bool      // compile only: `params` that nothing fills are no faults
}

// Setting gives one member of `input` as text: JSON if it parses as JSON, else a string; where `params` declares
// "string" for it, always a string.
type Setting struct{ Key, Value string }

// Progress is a moment of a running chain.
type Progress struct {
	Done, Total int    // steps that have ended, and all steps, of the outermost chain
	Step        int    // the step that has just started or ended
	ID          string // of that step; "": it has none
	Function    string // its function's name, "expr" for an expression, "" for an inline chain
	Ended       bool   // it has ended; else it has started, or is under way

	// Of a step that has ended.
	Status   string        // ok, reused, failed or skipped
	Reason   string        // of a skipped one
	Err      *fault.Error  // of a failed one; else nil
	Took     time.Duration // in all
	Elements int           // of its forEach; -1: it has none
	Result   []byte        // JSON, after select; it must not be changed. nil: there is none

	// What the function itself tells while it is under way; zero at a step's start and end.
	Part, Whole float64 // how far it is, of how much (0: unknown), in units of its own
	Message     string
}

// LogMessage is what a function logs while it runs.
type LogMessage struct {
	Step          int    // of the outermost chain
	Function      string // "" for what runs in an inline chain
	Level, Logger string // a word of RFC 5424 in lower case; the logger's name, may be ""
	Data          []byte // a JSON value
}

// Answer is what a chain, or a fetch, is answered.
type Answer struct {
	OK       bool
	JSON     []byte         // the bytes to send, compact, within the budget
	Error    *fault.Error   // the first error, nil when OK; for a chain that does not compile its code is compile
	Faults   []*fault.Error // all faults of a chain that does not compile, or of a single call that cannot be made
	Warnings []*fault.Error // also those that a lite answer leaves out; those of the Caller are not among them
	Question *Question      // about the calls that wait for approval; nil: none do, or nobody could go on with the run
	Plan     *DryRun        // of a dry run, whole, whatever JSON has room for; nil: it was none, or failed
	Warned   bool           // JSON has the Caller's Warnings; false where there are none
}

func (o *Options) setDefaults() error {
	if o.Counter == nil {
		counter, err := budget.NewCounter("", 0)
		if err != nil {
			return err
		}
		o.Counter = counter
	}
	if least := budget.Least(o.Counter); o.MaxTotalTokens != 0 && o.MaxTotalTokens < least {
		return fault.New(fault.BudgetTooSmall, "MaxTotalTokens is %d: the least is %d, and 0 means no budget", o.MaxTotalTokens, least)
	}
	if f := hoistFault(o.Hoist); f != nil {
		return f
	}
	o.topFields = slices.Concat(requestShape.names, o.Hoist)
	switch {
	case o.LeanAbove < -1:
		return fault.New(fault.BadRequest, "LeanAbove is %d: it is a number of tokens, and -1 means never", o.LeanAbove)
	case o.LeanAbove == 0:
		o.LeanAbove = defaultLeanAbove
	}
	for _, limit := range []struct {
		name  string
		value *int
		is    int
	}{
		{"MaxSteps", &o.MaxSteps, DefaultMaxSteps},
		{"MaxCalls", &o.MaxCalls, defaultMaxCalls},
		{"MaxConcurrency", &o.MaxConcurrency, defaultMaxConcurrency},
		{"MaxElements", &o.MaxElements, defaultMaxElements},
		{"ProbeAbove", &o.ProbeAbove, 0},
	} {
		if err := setDefault(limit.name, limit.value, limit.is); err != nil {
			return err
		}
	}
	for _, limit := range []struct {
		name  string
		value *int64
		is    int64
	}{
		{"MaxResultBytes", &o.MaxResultBytes, defaultMaxResultBytes},
		{"MaxChainBytes", &o.MaxChainBytes, DefaultMaxChainBytes},
		{"MaxRequestBytes", &o.MaxRequestBytes, DefaultMaxRequestBytes},
	} {
		if err := setDefault(limit.name, limit.value, limit.is); err != nil {
			return err
		}
	}
	if err := o.share(); err != nil {
		return err
	}
	if o.MaxDuration == -1 {
		o.MaxDuration = noMaxDuration
	}
	if err := setDefault("MaxDuration", &o.MaxDuration, defaultMaxDuration); err != nil {
		return err
	}
	return setDefault("StepTimeout", &o.StepTimeout, defaultStepTimeout)
}

// share settles what callers share.
func (o *Options) share() error {
	if err := setDefault("MaxRunningBytes", &o.MaxRunningBytes, max(defaultMaxRunningBytes, 4*o.MaxChainBytes)); err != nil {
		return err
	}
	if o.MaxRunningBytes/2 < o.MaxChainBytes {
		return fault.New(fault.BadRequest, "MaxRunningBytes is %d: it must be at least twice MaxChainBytes, which is %d, as one caller may have half of it", o.MaxRunningBytes, o.MaxChainBytes)
	}
	if o.Admission == nil {
		o.Admission = admit.Default()
	}
	return nil
}

func setDefault[T int | int64 | time.Duration](name string, value *T, is T) error {
	if *value < 0 {
		return fault.New(fault.BadRequest, "%s is %v: it cannot be below zero", name, *value)
	}
	if *value == 0 {
		*value = is
	}
	return nil
}
