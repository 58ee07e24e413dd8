package chain

import (
	"cmp"
	"slices"
	"time"

	"github.com/onecall-mcp/onecall/refs"
	"github.com/onecall-mcp/onecall/steps"
)

// The values of onError.
const (
	onErrorStop     = "stop"
	onErrorContinue = "continue"
	onErrorUndo     = "undo" // stop, then undo what was written
)

// plan is a chain that is ready to run: its names are resolved, its references and expressions compiled, its order derived. It does not
// change after compile, so the elements of a forEach can share an inline plan.
type plan struct {
	steps    []*plannedStep
	returned *refs.Template // the value of return; nil: the last step's result
	returnAt string         // the JSON Pointer of return

	origin      origin // the origin of the value of return or, without return, of the last step
	input       []byte // $input; nil for an inline chain, whose $input is its step's args
	onError     string // for an inline chain, the onError of the chain around it; a saved chain has its own
	dryRun      bool
	maxCalls    int
	maxDuration time.Duration
}

// plannedStep is one step of a plan.
type plannedStep struct {
	number int
	id     string       // "": none
	at     string       // its JSON Pointer
	fn     *steps.Entry // exactly one of fn, expr and inline is not nil
	expr   *refs.Expression
	inline *plan
	saved  *steps.Entry // the saved chain whose plan inline is; nil: inline is written in the step

	args       *refs.Template // nil: literal
	literal    []byte         // arguments of a single call, without references
	omitIfNull []string       // arguments that the first round of repeat leaves out if they are null
	common     []byte         // members `"k":v,"k2":v2` to append to the arguments; nil: none
	when       *refs.Expression
	forEach    *refs.Selector
	selector   *refs.Selector
	until      *refs.Expression
	collect    *refs.Selector // what is collected from each round of repeat; nil: the last round's result is the step's
	orElse     []byte         // nil: none
	undo       *plannedUndo   // nil: its calls cannot be undone
	approve    bool           // its function's calls need approval
	// Its calls need approval because of the undo that the step itself defines, which could smuggle any call past approval. An undo from
	// the configuration is trusted.
	undoNeedsApproval bool
	mayTruncate       bool // the function may set `truncated` in its result, which says that it is incomplete

	maxRounds   int // how many rounds repeat may take; 1 if there is no repeat
	delay       time.Duration
	maxRetries  int
	backoff     time.Duration
	timeout     time.Duration // the time limit of one call, inline chain or evaluation; 0: none
	patient     bool          // progress of the function puts the limit off
	concurrency int           // how many elements of forEach run at once

	effect        steps.Effect
	repeatable    bool   // its calls are safe to repeat
	origin        origin // the origin of the value that references to the step get
	needs         []int  // steps whose results it refers to: it is skipped if one has none
	after         []int  // steps that must end before it starts: needs, status(), and earlier steps by effect or rung
	dependencyBuf [4]int // the initial memory of needs and after, two elements each: most steps have no more

	rungs rungRange // the rungs of the functions that it calls
}

// name returns the canonical name of the step's function or saved chain, "expr" for an expression and "" for an inline chain.
func (p *plannedStep) name() string {
	switch {
	case p.callee() != nil:
		return p.callee().Spec().Name
	case p.expr != nil:
		return "expr"
	}
	return ""
}

// callee returns the function or the saved chain that the step names; nil: it has an expression or a written inline chain, or the name was
// not found.
func (p *plannedStep) callee() *steps.Entry { return cmp.Or(p.fn, p.saved) }

// orderWrites adds the dependencies that follow from effects: a read waits for the last write before it, a write for every earlier step. So
// does a read that asks for approval: the run stops there after all earlier steps, and before any later one.
func (p *plan) orderWrites() {
	lastBarrier := -1
	for i, s := range p.steps {
		if s.effect != steps.Read || s.mayAsk() {
			for j := max(lastBarrier, 0); j < i; j++ { // the last one itself waits for all steps before it
				s.after = appendNew(s.after, j)
			}
			lastBarrier = i
		} else if lastBarrier >= 0 {
			s.after = appendNew(s.after, lastBarrier)
		}
	}
}

// needsApproval reports whether any call of the plan needs approval.
func (p *plan) needsApproval() bool { return slices.ContainsFunc(p.steps, (*plannedStep).mayAsk) }

// mayAsk reports whether calls of a step, or of the steps of its inline chain, need approval.
func (p *plannedStep) mayAsk() bool {
	return p.inline != nil && p.inline.needsApproval() || p.mustApprove()
}

// mustApprove reports whether the step's own calls need approval.
func (p *plannedStep) mustApprove() bool { return p.approve || p.undoNeedsApproval }

// waves groups the steps that can run side by side, in order.
func (p *plan) waves() [][]int {
	var waves [][]int
	level := make([]int, len(p.steps))
	for i, s := range p.steps {
		for _, n := range s.after {
			level[i] = max(level[i], level[n]+1)
		}
		if level[i] == len(waves) {
			waves = append(waves, nil)
		}
		waves[level[i]] = append(waves[level[i]], i)
	}
	return waves
}

// undoes reports whether a failure of the plan, or of a saved chain in it, undoes what was written.
func (p *plan) undoes() bool {
	return p.onError == onErrorUndo ||
		slices.ContainsFunc(p.steps, func(s *plannedStep) bool { return s.inline != nil && s.inline.undoes() })
}

func appendNew(list []int, n int) []int {
	for _, have := range list {
		if have == n {
			return list
		}
	}
	return append(list, n)
}

// functions appends to list the functions that the plan calls, each once, including those of inline chains.
func (p *plan) functions(list []*steps.Entry) []*steps.Entry {
	for _, s := range p.steps {
		if s.inline != nil {
			list = s.inline.functions(list)
		} else if s.fn != nil && !slices.Contains(list, s.fn) {
			list = append(list, s.fn)
		}
	}
	return list
}

// callable returns the functions that the plan may call: those of functions, and those that undo their calls.
func (p *plan) callable() []*steps.Entry {
	list := p.functions(nil)
	var addUndoes func(p *plan)
	addUndoes = func(p *plan) {
		for _, s := range p.steps {
			if s.inline != nil {
				addUndoes(s.inline)
			} else if s.undo != nil && !slices.Contains(list, s.undo.fn) {
				list = append(list, s.undo.fn)
			}
		}
	}
	addUndoes(p)
	return list
}

// needsRecord reports whether the run needs a journal of its own if the engine has none: to undo its calls, or for idempotency keys.
func (p *plan) needsRecord() bool {
	return p.undoes() || slices.ContainsFunc(p.functions(nil), func(e *steps.Entry) bool { return e.Spec().Idempotency != nil })
}

func (p *plan) functionNames() []string {
	entries := p.functions(nil)
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Spec().Name
	}
	return names
}

// mustApprove reports whether calls of a function need approval. rule is that of functions that say nothing (see Options.Approve).
func mustApprove(f *steps.Spec, rule string) bool {
	switch cmp.Or(f.Approve, rule) {
	case steps.ApproveAlways:
		return true
	case steps.ApproveWrite:
		return f.Effect != steps.Read
	case steps.ApproveDestroy:
		return f.Effect == steps.Destroy
	}
	return false
}
