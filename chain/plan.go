package chain

import (
	"cmp"
	"slices"
	"time"

	"github.com/onecall-mcp/onecall/refs"
	"github.com/onecall-mcp/onecall/steps"
)

// What happens after a failure.
const (
	onErrorStop     = "stop"
	onErrorContinue = "continue"
	onErrorUndo     = "undo" // as stop, and then what was written is taken back
)

// plan is a chain that may run: every name resolved, every reference and expression compiled, every order known.
// It is not changed after compile, so that elements of a forEach can run one inline plan side by side.
type plan struct {
	steps []*plannedStep
	ret   *refs.Template // nil: the last step's result
	retAt string

	gives       origin // of the value of return, or of the last step
	input       []byte // what $input names; nil for an inline chain, which gets it from its step's args
	onError     string // an inline chain follows the one that it is written in
	dryRun      bool
	maxCalls    int
	maxDuration time.Duration
}

// plannedStep is one step of a plan.
type plannedStep struct {
	number int
	id     string       // "": it has none
	at     string       // its JSON Pointer
	fn     *steps.Entry // one of these three is not nil
	expr   *refs.Expression
	inline *plan
	saved  *steps.Entry // the saved chain that inline is; nil: it is none

	args    *refs.Template // nil: literal
	literal []byte         // the arguments of a single call, in which nothing is a reference
	leftOut []string       // arguments that the first round of repeat does not send if they are null
	common  []byte         // members `"k":v,"k2":v2` that are appended to the arguments; nil: none
	when    *refs.Expression
	forEach *refs.Selector
	selects *refs.Selector
	until   *refs.Expression
	collect *refs.Selector // of each round of repeat; nil: the last round's result is the step's
	orElse  []byte         // nil: none
	undo    *plannedUndo   // nil: nothing takes its calls back
	mayCut  bool           // the function's result tells by `truncated` that it is a part only

	maxRounds   int // of repeat; 1 without
	delay       time.Duration
	maxRetries  int
	backoff     time.Duration
	timeout     time.Duration // 0: none
	concurrency int

	effect     steps.Effect
	repeatable bool
	gives      origin // of what references to the step see
	needs      []int  // steps whose results it refers to: it is skipped when one of them has none
	after      []int  // steps that must have ended before it starts: needs, status(), and the order of writes
	room       [4]int // for the first of both, as most steps have one or two

	rungs span // of the functions that it calls
}

// name is the canonical name of the step's function or saved chain, "expr" for an expression and "" for an inline chain.
func (p *plannedStep) name() string {
	switch {
	case p.callee() != nil:
		return p.callee().Spec().Name
	case p.expr != nil:
		return "expr"
	}
	return ""
}

// callee is the function or the saved chain that the step names; nil: it names none.
func (p *plannedStep) callee() *steps.Entry { return cmp.Or(p.fn, p.saved) }

// order derives from effects which steps must have ended before each step starts, beside those that it refers to: reads
// wait for the last write before them, a write waits for every earlier step.
func (p *plan) order() {
	lastWrite := -1
	for i, s := range p.steps {
		if s.effect != steps.Read {
			for j := max(lastWrite, 0); j < i; j++ {
				s.after = appendNew(s.after, j)
			}
			lastWrite = i
		} else if lastWrite >= 0 {
			s.after = appendNew(s.after, lastWrite)
		}
	}
}

// waves are the steps that can run side by side, in their order.
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

// undoes reports whether a failure of the plan, or of a saved chain in it, takes back what was written.
func (p *plan) undoes() bool {
	return p.onError == onErrorUndo || slices.ContainsFunc(p.steps, func(s *plannedStep) bool { return s.inline != nil && s.inline.undoes() })
}

func appendNew(list []int, n int) []int {
	for _, have := range list {
		if have == n {
			return list
		}
	}
	return append(list, n)
}

// functions appends the functions that the plan names, those of inline chains too.
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
