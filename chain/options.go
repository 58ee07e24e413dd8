package chain

import (
	"context"
	"time"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/chain/internal/answer"
	"github.com/onecall-mcp/onecall/chain/internal/answer/format"
	"github.com/onecall-mcp/onecall/chain/internal/plan"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/admit"
	"github.com/onecall-mcp/onecall/internal/rawjson"
	"github.com/onecall-mcp/onecall/steps"
)

// Defaults of the server's limits. A chain's own budget can only lower them.
const (
	DefaultMaxSteps        = plan.DefaultMaxSteps
	defaultMaxCalls        = 200_000
	defaultMaxDuration     = 5 * time.Minute
	noMaxDuration          = 365 * 24 * time.Hour // takes the place of -1, no limit
	defaultMaxConcurrency  = 16
	defaultMaxElements     = 100_000
	defaultMaxResultBytes  = 64 << 20
	DefaultMaxChainBytes   = 256 << 20
	defaultMaxRunningBytes = 1 << 30
	DefaultMaxRequestBytes = plan.DefaultMaxBytes
	defaultStepTimeout     = 30 * time.Second
)

// Options configures an Engine. Only Functions is required. A zero limit means its default. A negative one is refused, except for -1 in
// MaxDuration and LeanAbove. New copies the struct.
type Options struct {
	// Functions are what steps may call: a *steps.Registry, or a *steps.Catalog, whose functions come and go. A request uses the
	// functions that are available when it comes. While sources are starting, it waits for names that are not found.
	Functions steps.Provider

	// Counter counts the tokens of answers; nil: o200k_base, unscaled.
	Counter budget.Counter

	// Journal records runs, so that they can be resumed; nil: nothing is recorded. The engine does not close it.
	Journal *journal.Journal

	// Scope names the environment that this engine's functions act on, if engines of several environments share a Journal. A run can be
	// resumed, undone or found by its key only in the scope that it began in. "" is a scope like any other.
	Scope string

	// Approve says which calls need approval if their functions do not say so: steps.ApproveNever, ApproveDestroy, ApproveWrite or
	// ApproveAlways; "": never. Approvals need a Journal.
	Approve string
	// ApproveByPerson accepts approvals only through Caller.Approve and Approve, not with a chain that is sent again.
	ApproveByPerson bool
	// Console is the address of the console, such as /console/, in which people decide about the runs of Journal: answers name the page of
	// the run that waits. "": it is not served.
	Console string

	// Flows are the flow rules; nil: there are none. They hold for each chain and call, before anything runs. Rules that approve need a
	// Journal.
	Flows []FlowRule

	// Results stores results that do not fit their answer. nil: an answer that does not fit is refused with limit_exceeded. The engine
	// does not close it.
	Results *budget.Results

	// MaxTotalTokens is the server's token budget of an answer, which a chain can lower; 0: none. Any other value must be at least
	// budget.MinTokensFor of the counter.
	MaxTotalTokens int
	// ProbeAbove is the number of tokens above which a result is answered as a probe even if it fits; 0: off.
	ProbeAbove int

	MaxSteps        int           // steps of a chain, including inline chains; 0: 1,000
	MaxCalls        int           // calls of functions by one chain, including repetitions; 0: 200,000
	MaxDuration     time.Duration // how long one chain may run; 0: 5 minutes, -1: no limit
	MaxConcurrency  int           // calls under way at once in one step or one wave; 0: 16
	MaxElements     int           // elements of one forEach; 0: 100,000
	MaxResultBytes  int64         // bytes of one step's result; 0: 64 MiB
	MaxChainBytes   int64         // bytes of all results that a chain holds; 0: 256 MiB
	MaxRequestBytes int64         // bytes of a request; 0: 4 MiB
	StepTimeout     time.Duration // how long one call may take if the step has no timeoutMs; 0: 30 s

	// MaxRunningBytes bounds what all running chains of all callers hold, at least twice MaxChainBytes. 0: 1 GiB, or four times
	// MaxChainBytes if that is more.
	MaxRunningBytes int64

	// Admission divides MaxRunningBytes and the processors among callers. Engines with the same Admission share them; nil: the engine has
	// its own.
	Admission Admission

	// LeanAbove is the number of tokens above which the result of a declared write is answered in its lean form: a summary of the write,
	// and a token for the rest. 0: 100; -1: never. Lean forms need Results.
	LeanAbove int

	// Rung returns a function's place on a ladder from cheap, 0, to costly; negative: none. Steps of different rungs run in the order
	// written, and so do the elements of a forEach over several rungs, so that decisions about a call do not depend on timing. Warnings
	// of functions on it (Warn of steps.Callbacks) are added to the answer's, as are those of tools. nil: there is no ladder.
	Rung func(*steps.Entry) int

	// WholeResults makes all calls ask for whole results, even if a chain refers only to some of their members (steps.Spec.Fields). It is for
	// a registry whose calls are recorded, or answered from a recording.
	WholeResults bool

	// Hoist names members, such as repoId, that a chain may have at its top level instead of in `common`. Names with a meaning of their
	// own are refused with bad_request.
	Hoist []string

	// Observer is notified of every request and its steps. nil: none.
	Observer Observer

	// Planned is called with the functions that a compiled chain calls, or may call to undo, each once, including those of saved chains. It is
	// called before the chain runs, and also for a dry run or a check. It may be called concurrently. nil: not called.
	Planned func([]*steps.Entry)

	// ListHint is the remedy for a name that is similar to no function: how the callers of this engine can list functions. "": none.
	ListHint string

	// ReadState reads the keys of a caller's state that a chain names by $state, and returns those that are there, a JSON object. It is called
	// once for a run, before anything of it runs; a resume reads only keys that the run has not read. nil: chains cannot use $state.
	ReadState func(ctx context.Context, caller string, keys []string) ([]byte, error)
	// StateRead is called with the values of $state that a run sees, a JSON object, before it runs. nil: not called.
	StateRead func(ctx context.Context, values []byte)

	// Lite makes answers lite (only the result) if the request does not choose a form.
	Lite bool

	topFields []string         // the fields of a chain, and the names in Hoist
	policy    *plan.FlowPolicy // nil: there are no flow rules
}

// Caller is the caller for whom a request is carried out. The zero value is a local user with the engine's own functions.
type Caller struct {
	ID        string           // owner of stored results; "" is a caller like any other
	Rights    budget.Rights    // a caller with fewer rights cannot fetch what was stored with more
	Label     string           // the answer's first member `chain`; a lite answer is then {"chain","result"}. "": none
	Line      int              // the line of a file on which the request begins, for faults of malformed JSON; 0: the first
	Chain     string           // name of the chain in the journal, if the request has none
	Parent    string           // id of the run that this one is a part of; "": none
	Run       string           // id of the request in logs, shown as `request` by a failure with trace full; "": none
	Functions steps.Provider   // the caller's view; nil: the engine's functions
	PlansOnly bool             // its requests may only call one signed chain each, or continue such a run (steps.Rights.Plans)
	Progress  func(Progress)   // called at a step's start, progress and end, one call at a time; nil: not wanted
	Log       func(LogMessage) // called with what functions log while they run, like Progress one call at a time; nil: not wanted
	Override  Override

	// Labels knows what the model of the client was shown; nil: nothing is known, so rules through model catch nothing.
	Labels SessionLabels
	// MaxTotalTokens limits every answer except that of a fetch. It can only lower the server's budget, and is raised
	// to budget.MinTokensFor. 0: the server's.
	MaxTotalTokens int
	// Approve asks a person whether calls that need approval may be made. An error means that no person can be asked now, or that the
	// question was dismissed (ErrDismissed). nil: no person can be asked.
	Approve func(ctx context.Context, calls []ApprovalCall) (yes bool, err error)
	// User is the name of the person whom Approve asks, for the record of a denial. "": the caller's ID stands for it.
	User string
	// Decision resumes the run that an earlier answer had a Question about; nil: the request begins a run, or names the one to resume.
	// With a Decision, Approve is not called.
	Decision *Decision
	// IfHalted refuses to resume a run (busy) that neither waits for approval nor was decided about since it stopped: another request may
	// have resumed it since the front end looked at it.
	IfHalted bool
	// Detach lets chains be answered before their runs have ended.
	Detach Detach
	// TextAsJSON accepts strings of JSON for the fields that take only an array or an object, with the warning text_as_json: some MCP
	// hosts send such fields as strings.
	TextAsJSON bool
	// MaxBlockBytes is how many bytes of blocks the front end sends after the answer, if its result is a block or a list of blocks. 0: none.
	MaxBlockBytes int64
	// AllBlocks: the front end wants all blocks whose handles the result has, and shows them to no model.
	AllBlocks bool
	// Suspend bounds how long a run may do nothing but pause (repeat.delayMs, retry.backoffMs). A run that would pause for at least that
	// long ends with Answer.Resumes, and continues when it is resumed. It needs a Journal. 0: runs pause where they are.
	Suspend time.Duration
	// Warnings of the front end come first among the answer's warnings, and are left out last. Answer.Warned reports whether they are in
	// the answer.
	Warnings []*fault.Error
}

// NewCaller returns the caller that a front end has identified. shared: callers without tokens have the same rights and share what is
// stored, so that these do not bound what they may fetch.
func NewCaller(c *steps.Caller, shared bool) *Caller {
	rights := budget.Rights{Credentials: c.Credentials}
	if !shared {
		rights.Level, rights.Scope = int(c.Tier), c.Functions
	}
	return &Caller{ID: c.ID, Rights: rights}
}

// Override has the settings of a front end that override the request, such as flags of the command line.
type Override struct {
	Input          []byte    // a JSON object that replaces members of `input`; nil: none
	Set            []Setting // settings that are applied after Input, in order
	Lite           *bool     // nil: as the request says
	MaxTotalTokens int       // replaces the request's token budget; 0: as the request says
	DryRun         bool      // nothing runs, as if the request had dryRun
	Trace          string    // "": as the request says
	Format         string    // one of Formats; "": as the request says
	ReadOnly       bool      // a step that does not only read is a fault
	WhyReadOnly    string    // the reason and the remedy; "": the tool that received the request only reads
	Operator       bool      // runs of any caller may be resumed, and bounds count the calls of all callers
	Check          bool      // compile only; missing `params` are not faults. With DryRun, the answer is the plan
	Bounds         bool      // with Check: the answer has the plan's counts, hash and bound
}

// Setting sets one member of `input` from text: as JSON if it parses as JSON, else as a string. It is always a string if `params`
// declares it so.
type Setting struct{ Key, Value string }

// Progress reports the start, the progress or the end of a step.
type Progress struct {
	Done, Total int    // steps of the outermost chain that have ended, and all of them
	Step        int    // the step that this is about
	ID          string // the id of that step; "": it has none
	Function    string // its function's name, "expr" for an expression, "" for an inline chain
	Ended       bool   // the step has ended; else it has started or is under way

	// The following fields are set if the step has ended.
	Status   string       // ok, reused, failed or skipped
	Reason   string       // why it was skipped
	Err      *fault.Error // why it failed; nil: it did not fail
	Took     time.Duration
	Elements int    // the number of elements of its forEach; -1: it has none
	Result   []byte // the result as JSON, after select; nil: none. It must not be changed

	// The progress that the function reports while it runs, in its own units; zero at a step's start and end. FunctionTotal 0: unknown.
	FunctionDone, FunctionTotal float64
	Message                     string
}

// LogMessage is a message that a function logs while it runs.
type LogMessage struct {
	Step          int    // the number of the step of the outermost chain
	Function      string // "" in an inline chain
	Level, Logger string // level of RFC 5424 in lower case; name of the logger, may be ""
	Data          []byte // a JSON value
}

// Answer is the answer to a request.
type Answer struct {
	OK       bool
	Text     bool           // JSON is not JSON but the text of a format: the lite answer to a request that asks for one
	Warned   bool           // JSON has the Caller's Warnings
	Run      string         // the id of the run that the request began or continued; "": the journal has none
	JSON     []byte         // the bytes to send, compact, within the budget
	Error    *fault.Error   // the first error, nil if OK. If a chain does not compile: compile, or unavailable if only sources are not ready
	Faults   []*fault.Error // the faults of a chain that does not compile, or of a single call that cannot be made; at most 1,000
	Warnings []*fault.Error // the warnings, including those that a lite answer leaves out, but not those of the Caller
	Question *Question      // the question about the calls that wait for approval; nil: none wait, or the run cannot be resumed
	Plan     *DryRun        // the plan of a dry run, complete even if JSON is not; nil: there was none, or it failed
	Checked  *Checked       // the size of a plan that was checked; nil: there was no check, or it failed
	Resumes  time.Time      // when to resume the run, which was suspended; Error is then not a failure. zero: it was not suspended
	// Defaulted lists the steps of which orElse replaced failures, also if JSON does not tell.
	Defaulted []DefaultedStep
	// Unrepeatable: a call was made that is not safe to repeat, so the same request again would write again.
	Unrepeatable bool
	Labels       []steps.Label      // those of the answered value, as far as flow rules name them; of a failure, all that it may show
	Blocks       []*steps.KeptBlock // the blocks that go with JSON (Caller.MaxBlockBytes), or all of the result (Caller.AllBlocks)
	BlockTokens  int                // what the blocks that go with JSON cost their reader
	Detached     *DetachedRun       // the run as it began, which goes on (JSON says how to follow it); nil: it has ended
}

// Formats returns the formats of results, as the field format names them.
func Formats() []string { return format.Names() }

// AsJSON returns JSON, or a string of JSON if the answer is a text.
func (a *Answer) AsJSON() []byte {
	if !a.Text {
		return a.JSON
	}
	return rawjson.AppendQuote(nil, a.JSON)
}

// DefaultedStep is a step of the outermost chain of which orElse replaced failures.
type DefaultedStep struct {
	Step     int
	ID       string // "": none
	Count    int    // the failures: of a forEach, one for each element; else 1
	Elements int    // the elements of a forEach; -1: the step has none
}

// rules returns the rules for the requests of a caller.
func (o *Options) rules(c *Caller) plan.Rules {
	u := plan.Rules{Functions: c.Functions, Limits: plan.Limits{Steps: o.MaxSteps, Calls: o.MaxCalls, Duration: o.MaxDuration,
		Bytes: o.MaxChainBytes},
		MaxConcurrency: o.MaxConcurrency, MaxElements: o.MaxElements,
		StepTimeout: o.StepTimeout, Requests: o.requestRules(), Approve: o.Approve, Rung: o.Rung, ListHint: o.ListHint, Flows: o.policy,
		Input: c.Override.Input, DryRun: c.Override.DryRun, ReadOnly: c.Override.ReadOnly,
		WhyReadOnly: c.Override.WhyReadOnly, Check: c.Override.Check, State: o.ReadState != nil}
	if u.Functions == nil {
		u.Functions = o.Functions
	}
	if c.Labels != nil {
		u.Labels = c.Labels
	}
	u.Requests.TextAsJSON = c.TextAsJSON
	for _, s := range c.Override.Set {
		u.Settings = append(u.Settings, plan.Setting(s))
	}
	return u
}

func (o *Options) requestRules() plan.RequestRules {
	return plan.RequestRules{MaxBytes: o.MaxRequestBytes, MaxSteps: o.MaxSteps, Hoisted: o.Hoist, TopFields: o.topFields,
		HasJournal: o.Journal != nil}
}

func (o *Options) setDefaults() error {
	if o.Counter == nil {
		counter, err := budget.NewCounter("", 0)
		if err != nil {
			return err
		}
		o.Counter = counter
	}
	if minTokens := budget.MinTokensFor(o.Counter); o.MaxTotalTokens != 0 && o.MaxTotalTokens < minTokens {
		return fault.New(fault.BudgetTooSmall, "MaxTotalTokens is %d: the minimum is %d; 0 means no budget", o.MaxTotalTokens, minTokens)
	}
	if f := plan.HoistFault(o.Hoist); f != nil {
		return f
	}
	o.topFields = plan.TopFields(o.Hoist)
	if f := o.checkFlows(); f != nil {
		return f
	}
	switch {
	case o.LeanAbove < -1:
		return fault.New(fault.BadRequest, "LeanAbove is %d: it is a number of tokens, and -1 means never", o.LeanAbove)
	case o.LeanAbove == 0:
		o.LeanAbove = answer.DefaultLeanAbove
	}
	for _, limit := range []struct {
		name     string
		value    *int
		fallback int
	}{
		{"MaxSteps", &o.MaxSteps, plan.DefaultMaxSteps},
		{"MaxCalls", &o.MaxCalls, defaultMaxCalls},
		{"MaxConcurrency", &o.MaxConcurrency, defaultMaxConcurrency},
		{"MaxElements", &o.MaxElements, defaultMaxElements},
		{"ProbeAbove", &o.ProbeAbove, 0},
	} {
		if err := setDefault(limit.name, limit.value, limit.fallback); err != nil {
			return err
		}
	}
	for _, limit := range []struct {
		name     string
		value    *int64
		fallback int64
	}{
		{"MaxResultBytes", &o.MaxResultBytes, defaultMaxResultBytes},
		{"MaxChainBytes", &o.MaxChainBytes, DefaultMaxChainBytes},
		{"MaxRequestBytes", &o.MaxRequestBytes, DefaultMaxRequestBytes},
	} {
		if err := setDefault(limit.name, limit.value, limit.fallback); err != nil {
			return err
		}
	}
	if err := o.setSharedDefaults(); err != nil {
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

// setSharedDefaults checks the limits that all callers share, and sets their defaults.
func (o *Options) setSharedDefaults() error {
	if err := setDefault("MaxRunningBytes", &o.MaxRunningBytes, max(defaultMaxRunningBytes, 4*o.MaxChainBytes)); err != nil {
		return err
	}
	if o.MaxRunningBytes/2 < o.MaxChainBytes {
		return fault.New(fault.BadRequest,
			"MaxRunningBytes is %d: it must be at least twice MaxChainBytes, which is %d, as one caller may have half of it",
			o.MaxRunningBytes, o.MaxChainBytes)
	}
	if o.Admission == nil {
		o.Admission = admit.Default()
	}
	return nil
}

// setDefault replaces a limit of 0 by its default. A negative limit is bad_request.
func setDefault[T int | int64 | time.Duration](name string, value *T, fallback T) error {
	if *value < 0 {
		return fault.New(fault.BadRequest, "%s is %v: it cannot be below zero", name, *value)
	}
	if *value == 0 {
		*value = fallback
	}
	return nil
}
