package chain

import (
	"cmp"
	"context"
	"time"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/chain/internal/answer"
	"github.com/onecall-mcp/onecall/chain/internal/facts"
	"github.com/onecall-mcp/onecall/chain/internal/ledger"
	"github.com/onecall-mcp/onecall/chain/internal/plan"
	"github.com/onecall-mcp/onecall/chain/internal/run"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/admit"
	"github.com/onecall-mcp/onecall/steps"
)

// request is one request of one caller. It hands each stage what that needs, and the result to the next: plan, run with its ledger, answer.
type request struct {
	o         *Options
	rules     plan.Rules
	form      answer.Form
	ledger    ledger.Ledger
	view      *steps.Registry // the functions that the request uses
	line      int             // the line of a file on which the request begins; 0: the first
	chainName string          // the name of the chain, if the request has none
	parent    string          // the run that this one is a part of; "": none
	override  Override
	plansOnly bool // see Caller.PlansOnly
	progress  func(Progress)
	log       func(LogMessage)
	suspend   time.Duration // see Caller.Suspend
	allBlocks bool          // see Caller.AllBlocks

	maxTokens    int         // upper bound of the answer, whatever the request says; 0: none
	limits       plan.Limits // as the request lowers them
	single       *plan.Call  // the only call; nil: a chain or a fetch
	warnings     plan.WarningList
	signatures   map[*steps.Entry]*fault.Error // by function: the fault that shows its signature
	decoded      *plan.Request                 // what is carried out; nil: nothing could be decoded
	observation  *observation                  // nil: there is no observer
	answerTokens int                           // the tokens of the answer; 0: not counted
	keptTokens   int                           // the tokens that the answer says were kept out of it; 0: none, or not counted
	state        []byte                        // the values of $state
	executed     *run.Run                      // nil: nothing was executed
	literals     *literals                     // nil: no flow rule is through a model
	decision     *Decision                     // the decision that came with the request; nil: none
	answering    func()                        // called before the answer of a run is written; nil: nothing needs to know
	detached     bool                          // the run concludes the request, since it may outlast the answer
	detach       Detach
	labels       SessionLabels // nil: nothing is known of the client
	flow         *plan.Flow    // what flow rules say of the plan; nil: there are none, or nothing was compiled
	askApproval  func(context.Context, []facts.WaitingCall) (bool, error)

	cutOff    *fault.Error // why decoding was cut off; nil: it was not
	caller    string
	rights    budget.Rights
	computing admit.Request
	memory    admit.Held
}

func (e *Engine) newRequest(c *Caller) *request {
	if c == nil {
		c = &Caller{}
	}
	s := &request{o: &e.o, caller: c.ID, line: c.Line, chainName: c.Chain, parent: c.Parent, override: c.Override, progress: c.Progress,
		plansOnly: c.PlansOnly, log: c.Log, decision: c.Decision, rights: c.Rights, detach: c.Detach, suspend: c.Suspend, allBlocks: c.AllBlocks,
		labels: c.Labels,
		ledger: ledger.Ledger{Journal: e.o.Journal, Scope: e.o.Scope, Caller: c.ID, User: c.User, Operator: c.Override.Operator,
			IfHalted: c.IfHalted, Credentials: c.Rights.Credentials, ByPerson: e.o.ApproveByPerson, Console: e.o.Console, Spelling: plan.Canonical},
		form: answer.Form{Counter: e.o.Counter, Caller: c.ID, ProbeAbove: e.o.ProbeAbove, LeanAbove: e.o.LeanAbove, Label: c.Label,
			RequestID: c.Run, Started: time.Now(), CallerWarnings: c.Warnings, MaxBlockBytes: c.MaxBlockBytes, Observed: e.o.Observer != nil}}
	s.ledger.Rights = &s.rights
	s.rules = e.o.rules(c)
	s.limits = s.rules.Limits
	if e.o.Results != nil {
		s.form.Results = e.o.Results.WithRights(s.rights)
	}
	s.share(&e.o)
	if e.o.Observer != nil {
		s.observation = &observation{observer: e.o.Observer}
	}
	s.maxTokens = e.o.MaxTotalTokens
	if n := c.MaxTotalTokens; n > 0 {
		n = max(n, budget.MinTokensFor(e.o.Counter))
		s.maxTokens = min(n, cmp.Or(s.maxTokens, n))
	}
	if c.Approve != nil {
		s.askApproval = func(ctx context.Context, calls []facts.WaitingCall) (bool, error) {
			s.show(false)
			return c.Approve(ctx, approvalCalls(calls))
		}
	}
	_ = s.applyForm(nil, nil, "")
	return s
}

// share gives the request its share of the memory and the processors.
func (s *request) share(o *Options) {
	s.memory.Caller, s.memory.From, s.memory.Total = s.caller, o.Admission, o.MaxRunningBytes
	s.memory.MaxWork = o.MaxChainBytes + maxWorkBytes
	s.computing.Caller, s.computing.Slots, s.computing.Memory = s.caller, o.Admission, &s.memory
}

// applyForm sets the token limit and the form of the answer. The override wins over the request; neither can raise the limits of the server
// and of the caller. It returns a fault if the token budget is too low for any answer.
func (s *request) applyForm(b *plan.BudgetRequest, lite *bool, trace string) (low *fault.Error) {
	tokens := s.override.MaxTotalTokens
	if tokens == 0 && b != nil && b.MaxTotalTokens != nil {
		tokens = *b.MaxTotalTokens
	}
	// The fault itself needs an answer: with the least budget if the override is too low, else with that of the server and the caller.
	if minTokens := budget.MinTokensFor(s.o.Counter); tokens != 0 && tokens < minTokens {
		low = fault.New(fault.BudgetTooSmall, "an answer needs room for %d tokens at least: raise maxTotalTokens from %d", minTokens,
			tokens).Under("/budget/maxTotalTokens")
		if tokens = 0; s.override.MaxTotalTokens > 0 {
			tokens = minTokens
		}
	}
	if tokens == 0 || s.maxTokens > 0 && s.maxTokens < tokens {
		tokens = s.maxTokens
	}
	if s.form.Meter == nil || s.form.Meter.Limit() != tokens {
		s.form.Meter = budget.NewMeter(s.o.Counter, tokens)
	}
	if s.form.Lite = s.o.Lite; s.override.Lite != nil {
		s.form.Lite = *s.override.Lite
	} else if lite != nil {
		s.form.Lite = *lite
	}
	switch s.form.Trace = cmp.Or(s.override.Trace, trace); {
	case s.form.Trace != "":
	case s.form.Lite:
		s.form.Trace = "none"
	default:
		s.form.Trace = "summary"
	}
	return low
}

// lowerTokens lowers the token limit of the answer to that of a saved chain, unless the override sets it.
func (s *request) lowerTokens(n int) {
	if limit := s.form.Meter.Limit(); s.override.MaxTotalTokens == 0 && (limit == 0 || n < limit) {
		s.form.Meter = budget.NewMeter(s.o.Counter, n)
	}
}

// warn adds warnings about what looks like mistakes.
func (s *request) warn(list ...*fault.Error) {
	for _, w := range list {
		s.warnings.Add(s.form.Relocate(w))
	}
}
