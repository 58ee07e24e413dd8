package chain

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// rules are what the server, the caller and the front end say about the requests that they accept.
type rules struct {
	functions      steps.Provider
	limits         limits
	maxConcurrency int
	stepTimeout    time.Duration
	requests       requestRules
	approve        string                 // see Options.Approve
	rung           func(*steps.Entry) int // see Options.Rung; nil: there is no ladder
	listHint       string                 // see Options.ListHint
	isCall         bool                   // the request is the call of one function

	input       []byte    // a JSON object that replaces members of `input`; nil: none
	settings    []setting // settings that are applied after input, in order
	dryRun      bool
	readOnly    bool // a step that does not only read is a fault
	whyReadOnly string
	check       bool // missing `params` are not faults
}

// Defaults of the limits of requests.
const (
	DefaultMaxSteps = 1000    // steps of a chain, including inline chains
	DefaultMaxBytes = 4 << 20 // bytes of a request
)

// requestRules are what a request may look like.
type requestRules struct {
	maxBytes   int64
	maxSteps   int      // of each `steps`, at most one element more than this is read: it shows that there are too many
	hoisted    []string // names that a chain may have at its top level instead of in `common`
	topFields  []string // the fields of a chain, and the names in hoisted
	hasJournal bool
	textAsJSON bool // see Caller.TextAsJSON
}

// setting sets one member of `input` from text: as JSON if it parses as JSON, else as a string. It is always a string if `params` declares
// it so.
type setting struct{ key, value string }

// limits bound one run. A chain, and each saved chain that it calls, can lower them.
type limits struct {
	steps, calls int
	duration     time.Duration
}

func (l *limits) lower(b *budgetRequest) {
	if b == nil {
		return
	}
	if b.MaxSteps != nil {
		l.steps = min(l.steps, *b.MaxSteps)
	}
	if b.MaxCalls != nil {
		l.calls = min(l.calls, *b.MaxCalls)
	}
	if ms := b.MaxDurationMs; ms != nil {
		l.duration = min(l.duration, time.Duration(*ms)*time.Millisecond)
	}
}

// compiled is what the compilation of a request has found.
type compiled struct {
	faults     faultList
	warnings   warningList
	signatures map[*steps.Entry]*fault.Error // by function: the fault that shows its signature
	limits     limits
	maxTokens  int          // the lowest token limit of the saved chains that the chain calls; 0: none
	cutOff     *fault.Error // why compilation was cut off; nil: it was not
}

// warningList collects warnings. Those after maxWarnings are dropped.
type warningList []*fault.Error

func (l *warningList) add(list ...*fault.Error) {
	for _, w := range list {
		if len(*l) < maxWarnings {
			*l = append(*l, w)
		}
	}
}

// dropMisleading removes the warnings that recommend interpolation for a text which one of the faults treats as an expression.
func (l *warningList) dropMisleading(faults []*fault.Error) {
	*l = slices.DeleteFunc(*l, func(w *fault.Error) bool {
		return w.Code == fault.BadReference && slices.ContainsFunc(faults, func(f *fault.Error) bool {
			return f.Code == fault.BadExpression && f.At == w.At
		})
	})
}

// compilation is what the compilers of a request share: that of the request, and those of the saved chains that it calls.
type compilation struct {
	compiled
	rules    *rules
	view     *steps.Registry
	guard    planGuard
	total    int                   // the number of steps so far, including those of inline chains
	compared int                   // the undeclared arguments that were compared with declared ones
	hinted   map[*steps.Entry]bool // the functions whose faults say what to do about their output schema
}

// compile plans a chain with the functions of view. It adds what is wrong to the faults that decoding has found.
func compile(ctx context.Context, r *request, view *steps.Registry, u *rules, large bool, faults faultList) (*plan, *compiled) {
	shared := &compilation{compiled: compiled{faults: faults, limits: u.limits}, rules: u, view: view,
		guard: planGuard{ctx: ctx, large: large, since: time.Now()}}
	defer shared.guard.slot.Release()
	shared.limits.lower(r.Budget)
	p := newCompiler(shared, r, &shared.faults).compileRequest()
	shared.cutOff = shared.guard.failure
	return p, &shared.compiled
}

// lower lowers the limits of the request to those of a saved chain that it calls.
func (c *compilation) lower(b *budgetRequest) {
	c.limits.lower(b)
	if b != nil && b.MaxTotalTokens != nil && (c.maxTokens == 0 || *b.MaxTotalTokens < c.maxTokens) {
		c.maxTokens = *b.MaxTotalTokens
	}
}

func newCompiler(shared *compilation, r *request, faults *faultList) *compiler {
	return &compiler{compilation: shared, request: r, common: members(r.Common), onError: cmp.Or(r.OnError, onErrorStop),
		usedCommon: map[string]bool{}, faults: faults}
}
