package plan

import (
	"cmp"
	"slices"
	"time"

	"github.com/onecall-mcp/onecall/chain/internal/facts"
	"github.com/onecall-mcp/onecall/refs"
	"github.com/onecall-mcp/onecall/steps"
)

// The values of onError.
const (
	onErrorStop     = "stop"
	OnErrorContinue = "continue"
	OnErrorUndo     = "undo" // stop, then undo what was written
)

// Plan is a chain that is ready to run: its names are resolved, its references and expressions compiled, its order derived. It does not
// change after compile, so the elements of a forEach can share an inline plan.
type Plan struct {
	Steps    []*Step
	Returned *refs.Template // the value of return; nil: the last step's result
	ReturnAt string         // the JSON Pointer of return

	origin      origin // the origin of the value of return or, without return, of the last step
	State       []StateUse
	Input       []byte // $input; nil for an inline chain, whose $input is its step's args
	Flow        *Flow  // nil: there are no flow rules
	Compares    bool   // the answer is compared with an earlier one: it is the whole result of one read
	OnError     string // for an inline chain, the onError of the chain around it; a saved chain has its own
	DryRun      bool
	MaxCalls    int
	MaxDuration time.Duration
	MaxBytes    int64 // of all results

	resultReads []read // of a check: what references read of results
}

// Step is one step of a plan.
type Step struct {
	facts.Planned
	Expr   *refs.Expression // exactly one of Fn, Expr and Inline is not nil
	Inline *Plan            // of an inline chain, or of the chain Saved

	Args       *refs.Template // nil: literal
	Literal    []byte         // arguments of a single call, without references
	OmitIfNull []string       // arguments that the first round of repeat leaves out if they are null
	Common     []byte         // members `"k":v,"k2":v2` to append to the arguments; nil: none
	When       *refs.Expression
	ForEach    *refs.Selector
	Selector   *refs.Selector
	Until      *refs.Expression
	Collect    *refs.Selector // what is collected from each round of repeat; nil: the last round's result is the step's
	OrElse     []byte         // nil: none
	Undo       *Undo          // nil: its calls cannot be undone
	Approve    bool           // its function's calls need approval
	// Its calls need approval because of the undo that the step itself defines, which could smuggle any call past approval. An undo from
	// the configuration is trusted.
	undoNeedsApproval bool
	Flows             []string      // why its calls need the approval of a person, by flow rules
	Labels            []steps.Label // of its arguments, if its function changes the state
	KeepArgs          bool          // the arguments of its call are kept
	MayTruncate       bool          // the function may set `truncated` in its result, which says that it is incomplete

	Projection *Projection // nil: its calls ask for whole results

	MaxRounds   int // how many rounds repeat may take; 1 if there is no repeat
	Delay       time.Duration
	MaxRetries  int
	Backoff     time.Duration
	Timeout     time.Duration // the time limit of one call, inline chain or evaluation; 0: none
	Patient     bool          // progress of the function puts the limit off
	Concurrency int           // how many elements of forEach run at once

	Effect        steps.Effect
	Repeatable    bool   // its calls are safe to repeat
	origin        origin // the origin of the value that references to the step get
	Needs         []int  // steps whose results it refers to: it is skipped if one has none
	After         []int  // steps that must end before it starts: needs, status(), and earlier steps by effect or rung
	dependencyBuf [4]int // the initial memory of needs and after, two elements each: most steps have no more

	Rungs rungRange // the rungs of the functions that it calls
}

// orderWrites adds the dependencies that follow from effects: a read waits for the last write before it, a write for every earlier step. So
// does a read that asks for approval: the run stops there after all earlier steps, and before any later one.
func (p *Plan) orderWrites() {
	lastBarrier := -1
	for i, s := range p.Steps {
		if s.Effect != steps.Read || s.mayAsk() {
			for j := max(lastBarrier, 0); j < i; j++ { // the last one itself waits for all steps before it
				s.After = appendNew(s.After, j)
			}
			lastBarrier = i
		} else if lastBarrier >= 0 {
			s.After = appendNew(s.After, lastBarrier)
		}
	}
}

// NeedsApproval reports whether any call of the plan needs approval.
func (p *Plan) NeedsApproval() bool { return slices.ContainsFunc(p.Steps, (*Step).mayAsk) }

// mayAsk reports whether calls of a step, or of the steps of its inline chain, need approval.
func (s *Step) mayAsk() bool {
	return s.Inline != nil && s.Inline.NeedsApproval() || s.MustApprove()
}

// MustApprove reports whether the step's own calls need approval.
func (s *Step) MustApprove() bool { return s.Approve || s.undoNeedsApproval || len(s.Flows) > 0 }

// Waves groups the steps that can run side by side, in order.
func (p *Plan) Waves() [][]int {
	var waves [][]int
	level := make([]int, len(p.Steps))
	for i, s := range p.Steps {
		for _, n := range s.After {
			level[i] = max(level[i], level[n]+1)
		}
		if level[i] == len(waves) {
			waves = append(waves, nil)
		}
		waves[level[i]] = append(waves[level[i]], i)
	}
	return waves
}

// Undoes reports whether a failure of the plan, or of a saved chain in it, undoes what was written.
func (p *Plan) Undoes() bool {
	return p.OnError == OnErrorUndo ||
		slices.ContainsFunc(p.Steps, func(s *Step) bool { return s.Inline != nil && s.Inline.Undoes() })
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
func (p *Plan) functions(list []*steps.Entry) []*steps.Entry {
	for _, s := range p.Steps {
		if s.Inline != nil {
			list = s.Inline.functions(list)
		} else if s.Fn != nil && !slices.Contains(list, s.Fn) {
			list = append(list, s.Fn)
		}
	}
	return list
}

// Callable returns the functions that the plan may call: those of functions, and those that undo their calls.
func (p *Plan) Callable() []*steps.Entry {
	list := p.functions(nil)
	var addUndoes func(p *Plan)
	addUndoes = func(p *Plan) {
		for _, s := range p.Steps {
			if s.Inline != nil {
				addUndoes(s.Inline)
			} else if s.Undo != nil && !slices.Contains(list, s.Undo.Fn) {
				list = append(list, s.Undo.Fn)
			}
		}
	}
	addUndoes(p)
	return list
}

// NeedsRecord reports whether the run needs a journal of its own if the engine has none: to undo its calls, or for idempotency keys.
func (p *Plan) NeedsRecord() bool {
	return p.Undoes() || slices.ContainsFunc(p.functions(nil), func(e *steps.Entry) bool { return e.Spec().Idempotency != nil })
}

// FunctionNames returns the names of the functions that the plan calls, each once.
func (p *Plan) FunctionNames() []string {
	entries := p.functions(nil)
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Spec().Name
	}
	return names
}

// MustApprove reports whether calls of a function need approval. rule is that of functions that say nothing (see Options.Approve).
func MustApprove(f *steps.Spec, rule string) bool {
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

// maxDoublings bounds the doublings that MayBeSuspended computes, so that they do not overflow: the longest backoffMs doubled that often is
// more than a century.
const maxDoublings = 20

// MayBeSuspended reports whether the plan has a pause of at least this length. 0: none is long enough. A run that undoes what it has done
// is not suspended: if it is cancelled in a pause, it must undo at once.
func (p *Plan) MayBeSuspended(least time.Duration) bool {
	return least > 0 && !p.Undoes() && slices.ContainsFunc(p.Steps, func(s *Step) bool {
		return s.Until != nil && s.Delay >= least || s.Inline != nil && s.Inline.MayBeSuspended(least) ||
			s.Fn != nil && s.MaxRetries > 0 && s.Backoff<<min(s.MaxRetries-1, maxDoublings) >= least
	})
}
