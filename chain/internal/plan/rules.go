package plan

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/decode"
	"github.com/onecall-mcp/onecall/internal/rawjson"
	"github.com/onecall-mcp/onecall/steps"
)

// Rules are what the server, the caller and the front end say about the requests that they accept.
type Rules struct {
	Functions      steps.Provider
	Limits         Limits
	MaxConcurrency int
	MaxElements    int // of one forEach
	StepTimeout    time.Duration
	Requests       RequestRules
	Approve        string                 // see chain.Options.Approve
	Rung           func(*steps.Entry) int // see chain.Options.Rung; nil: there is no ladder
	Flows          *FlowPolicy            // nil: there are no flow rules
	Labels         SessionLabels          // see chain.Caller.Labels
	Assumed        [][]byte               // results of calls that the client has stated in place of a service
	ListHint       string                 // see chain.Options.ListHint
	IsCall         bool                   // the request is the call of one function
	WholeResults   bool                   // calls ask for whole results: they are recorded
	Resumes        bool                   // the request continues a run: some of its calls may be made already

	Input       []byte    // a JSON object that replaces members of `input`; nil: none
	Settings    []Setting // settings that are applied after input, in order
	DryRun      bool
	ReadOnly    bool // a step that does not only read is a fault
	WhyReadOnly string
	Check       bool // missing `params` are not faults
	State       bool // $state can be read
}

// Defaults of the limits of requests.
const (
	DefaultMaxSteps = 1000    // steps of a chain, including inline chains
	DefaultMaxBytes = 4 << 20 // bytes of a request
)

// RequestRules are what a request may look like.
type RequestRules struct {
	MaxBytes   int64
	MaxSteps   int      // of each `steps`, at most one element more than this is read: it shows that there are too many
	Hoisted    []string // names that a chain may have at its top level instead of in `common`
	TopFields  []string // the fields of a chain, and the names in hoisted
	HasJournal bool
	TextAsJSON bool // see chain.Caller.TextAsJSON
}

// Setting sets one member of `input` from text: as JSON if it parses as JSON, else as a string. It is always a string if `params` declares
// it so.
type Setting struct{ Key, Value string }

// Limits bound one run. A chain, and each saved chain that it calls, can lower them.
type Limits struct {
	Steps, Calls int
	Duration     time.Duration
	Bytes        int64 // of all results
	namesBytes   bool  // the chain, or a saved one, says how many
}

func (l *Limits) lower(b *BudgetRequest) {
	if b == nil {
		return
	}
	if b.MaxSteps != nil {
		l.Steps = min(l.Steps, *b.MaxSteps)
	}
	if b.MaxCalls != nil {
		l.Calls = min(l.Calls, *b.MaxCalls)
	}
	if ms := b.MaxDurationMs; ms != nil {
		l.Duration = min(l.Duration, time.Duration(*ms)*time.Millisecond)
	}
	if b.MaxBytes != nil {
		l.Bytes, l.namesBytes = min(l.Bytes, int64(*b.MaxBytes)), true
	}
}

// Compiled is what the compilation of a request has found.
type Compiled struct {
	Faults     decode.Faults
	Warnings   WarningList
	Signatures map[*steps.Entry]*fault.Error // by function: the fault that shows its signature
	Limits     Limits
	MaxTokens  int          // the lowest token limit of the saved chains that the chain calls; 0: none
	State      []StateUse   // the keys of $state that are read
	CutOff     *fault.Error // why compilation was cut off; nil: it was not
}

// MaxWarnings bounds the warnings that are reported for one request.
const MaxWarnings = 100

// WarningList collects warnings. Those after MaxWarnings are dropped.
type WarningList []*fault.Error

// Add adds warnings.
func (l *WarningList) Add(list ...*fault.Error) {
	for _, w := range list {
		if len(*l) < MaxWarnings {
			*l = append(*l, w)
		}
	}
}

// DropMisleading removes the warnings that recommend interpolation for a text which one of the faults treats as an expression.
func (l *WarningList) DropMisleading(faults []*fault.Error) {
	*l = slices.DeleteFunc(*l, func(w *fault.Error) bool {
		return w.Code == fault.BadReference && slices.ContainsFunc(faults, func(f *fault.Error) bool {
			return f.Code == fault.BadExpression && f.At == w.At
		})
	})
}

// compilation is what the compilers of a request share: that of the request, and those of the saved chains that it calls.
type compilation struct {
	Compiled
	rules    *Rules
	view     *steps.Registry
	unsent   bool // no call will be made
	guard    guard
	total    int                   // the number of steps so far, including those of inline chains
	compared int                   // the undeclared arguments that were compared with declared ones
	hinted   map[*steps.Entry]bool // the functions whose faults say what to do about their output schema
	changed  map[string]*Step      // by key of $state: the first step that changes it
	reads    []read                // of a check: what references read of results
}

// Compile plans a chain with the functions of view. It adds what is wrong to the faults that decoding has found.
func Compile(ctx context.Context, r *Request, view *steps.Registry, u *Rules, large bool, faults decode.Faults) (*Plan, *Compiled) {
	shared := &compilation{Compiled: Compiled{Faults: faults, Limits: u.Limits}, rules: u, view: view, unsent: u.Check || u.DryRun || r.DryRun,
		guard: guard{ctx: ctx, large: large, since: time.Now()}}
	defer shared.guard.slot.Release()
	shared.Limits.lower(r.Budget)
	p := newCompiler(shared, r, &shared.Faults).compileRequest()
	if shared.CutOff = shared.guard.failure; u.Flows != nil && shared.CutOff == nil {
		shared.decideFlows(p, r)
	}
	if len(shared.Faults.List) == 0 && shared.CutOff == nil {
		shared.checkBound(p)
	}
	if effect, _ := p.Effect(); effect == steps.Read && !u.WholeResults && shared.CutOff == nil && len(shared.Faults.List) == 0 {
		p.project()
	}
	p.State, p.resultReads = shared.State, shared.reads
	return p, &shared.Compiled
}

// lower lowers the limits of the request to those of a saved chain that it calls.
func (c *compilation) lower(b *BudgetRequest) {
	c.Limits.lower(b)
	if b != nil && b.MaxTotalTokens != nil && (c.MaxTokens == 0 || *b.MaxTotalTokens < c.MaxTokens) {
		c.MaxTokens = *b.MaxTotalTokens
	}
}

func newCompiler(shared *compilation, r *Request, faults *decode.Faults) *compiler {
	return &compiler{compilation: shared, request: r, common: rawjson.ListMembers(r.Common), onError: cmp.Or(r.OnError, onErrorStop),
		usedCommon: map[string]bool{}, faults: faults}
}
