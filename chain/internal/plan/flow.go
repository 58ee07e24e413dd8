package plan

import (
	"slices"
	"strconv"
	"strings"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/refs"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/schema"
)

// Flow is what flow rules say of a plan.
type Flow struct {
	Answer    []steps.Label  // the labels of the answered value, as far as rules name them
	Calls     []string       // the labels that the functions of the plan give, which a failure may show
	Decisions []FlowDecision // those that stop nothing before the plan runs: approve and warn
}

// FlowDecision is what a rule decides about a way of values through a plan.
type FlowDecision struct {
	Rule     FlowRule
	At       string   // the JSON Pointer of what brings the values into the call
	StepPath string   // the path of the step whose call they reach: 3, 3.1
	Function string   // the function that takes them
	Path     []string // in words: where they come from, the steps between, and the argument
}

// text tells the way in one line.
func (d *FlowDecision) text() string { return d.Rule.From + ": " + strings.Join(d.Path, " → ") }

// Warned returns the ways of values that rules only warn of, in words. f may be nil.
func (f *Flow) Warned() (list []string) {
	if f == nil {
		return nil
	}
	for i := range f.Decisions {
		if d := &f.Decisions[i]; d.Rule.Do == FlowWarn {
			list = append(list, d.text())
		}
	}
	return list
}

// SessionLabels is the part of chain.SessionLabels that the plan asks.
type SessionLabels interface {
	Sent(value []byte) []string
	Kept(function *steps.Spec, args []byte) []steps.Label
	State(key string) []steps.Label
}

// flows follows labels through a plan. Values get labels from functions (steps.Spec.Gives), and from what a client was shown before it
// wrote them; they keep them along references and expressions. What `when` and `until` decide is not followed, nor what happens within a
// source.
type flows struct {
	*compilation
	policy  *FlowPolicy
	session SessionLabels // nil: nothing is known of the client
	flow    Flow
	trial   bool       // nothing is decided yet
	kept    []flowMark // the marks of what steps keep in the state
	assumed []flowMark // the marks of results that the client has stated
	asks    bool       // some step must ask

	markMemory []flowMark // see takeMemory
	wayMemory  []flowWay
	pathMemory []schema.Element
}

// flowScope has the marks of what the texts of a step refer to.
type flowScope struct {
	level  string       // what comes before the numbers of steps in their paths
	steps  [][]flowMark // by step
	input  []flowMark
	item   []flowMark
	result []flowMark
	own    bool   // the client has sent the texts: they are not those of a saved chain
	at     string // where faults are reported; "": where they are
}

// decideFlows follows the labels of values through the plan of a request, and decides by the policy what happens to them.
func (c *compilation) decideFlows(p *Plan, r *Request) {
	f := &flows{compilation: c, policy: c.rules.Flows, session: c.rules.Labels}
	for _, result := range c.rules.Assumed {
		f.assumed = joinMarks(f.assumed, wholly(f.literalMarks("/assume", result, nil)))
	}
	scope := func() *flowScope { return &flowScope{own: true, input: f.inputMarks(p, r)} }
	if p.keepsState() {
		// A step of a loop may read what a later one has kept in an earlier round: follow them until no more is kept.
		f.trial = true
		for known := -1; known != len(f.kept); {
			known = len(f.kept)
			f.followLevel(p, r.Steps, r.Return, scope())
		}
		f.trial = false
	}
	f.flow.Answer = labelsOf(f.followLevel(p, r.Steps, r.Return, scope()))
	if f.asks {
		p.reorderWrites()
	}
	p.Flow = &f.flow
}

// keepsState reports whether a step changes the state.
func (p *Plan) keepsState() bool {
	return slices.ContainsFunc(p.Steps, func(s *Step) bool {
		return s.Inline != nil && s.Inline.keepsState() || s.Fn != nil && s.Fn.Spec().State && s.Fn.Spec().Effect != steps.Read
	})
}

// reorderWrites orders the steps again, some of which must ask now.
func (p *Plan) reorderWrites() {
	for _, s := range p.Steps {
		if s.Inline != nil {
			s.Inline.reorderWrites()
		}
	}
	p.orderWrites()
}

// followLevel follows the labels through the steps of one chain, and returns the marks of its value. requests and ret are its steps and its
// return as the client has sent them, if it has.
func (f *flows) followLevel(p *Plan, requests []StepRequest, ret []byte, scope *flowScope) []flowMark {
	scope.steps = make([][]flowMark, len(p.Steps))
	item := scope.item
	for i, s := range p.Steps {
		request := &noRequest
		if i < len(requests) && scope.own {
			request = &requests[i]
		}
		scope.item, scope.result = item, nil // each step has its own
		scope.steps[i] = f.followStep(scope, s, request)
	}
	scope.item, scope.result = item, nil
	if p.Returned != nil {
		return f.templateMarks(scope, p.Returned, p.ReturnAt, ret)
	}
	if n := len(p.Steps); n > 0 {
		return scope.steps[n-1]
	}
	return nil
}

// noRequest stands for a step that the client has not sent.
var noRequest StepRequest

// followStep returns the marks of what a step gives to references.
func (f *flows) followStep(scope *flowScope, s *Step, r *StepRequest) []flowMark {
	if s.ForEach != nil {
		scope.item = elementsOfArray(f.textMarks(scope, s.ForEach, s.At+"/forEach", r.ForEach))
	}
	result := f.followRounds(scope, s, r)
	scope.result = result
	if s.Undo != nil {
		f.followUndo(scope, s, r)
	}
	if s.Collect != nil {
		var text *string
		if r.Repeat != nil {
			text = r.Repeat.Collect
		}
		result = below([]schema.Element{eachElement}, elementsOfArray(f.textMarks(scope, s.Collect, s.At+"/repeat/collect", text)))
		scope.result = result
	}
	if s.Selector != nil {
		result = f.textMarks(scope, s.Selector, s.At+"/select", r.Select)
	}
	if s.OrElse != nil && scope.own {
		result = joinMarks(result, f.literalMarks(s.At+"/orElse", s.OrElse, nil))
	}
	if s.ForEach != nil {
		result = below([]schema.Element{eachElement}, result)
	}
	return result
}

// followRounds follows the calls of a step. Those of a repeat may take the result of the round before, so they are followed until no round
// adds a label.
func (f *flows) followRounds(scope *flowScope, s *Step, r *StepRequest) []flowMark {
	takesResult := func(u refs.Use) bool { return u.Root == refs.RootResult }
	if s.Until == nil || s.Args == nil || !slices.ContainsFunc(s.Args.Uses(), takesResult) {
		return f.followCall(scope, s, r)
	}
	trial := f.trial
	f.trial = true
	for rounds := 0; ; rounds++ {
		result := f.followCall(scope, s, r)
		if covered(scope.result, result) {
			break
		}
		if scope.result = joinMarks(scope.result, result); rounds >= maxMarkPath {
			scope.result = wholly(scope.result)
		}
	}
	if f.trial = trial; trial {
		return scope.result
	}
	return joinMarks(scope.result, f.followCall(scope, s, r))
}

// followCall returns the marks of the result of a step's call, and decides about its arguments.
func (f *flows) followCall(scope *flowScope, s *Step, r *StepRequest) (result []flowMark) {
	if s.Expr != nil {
		return f.passing(scope, s, f.textMarks(scope, s.Expr, s.At+"/expr", r.Expr))
	}
	args := f.argumentMarks(scope, s, r)
	if s.Fn != nil {
		f.decide(scope, s, s.Fn, args, true)
		return f.resultMarks(scope, s, args)
	}
	if s.Saved != nil {
		f.decide(scope, s, s.Saved, args, false)
		result = f.given(scope, s, s.Saved)
	}
	if s.Inline != nil {
		inner := &flowScope{level: scope.level + strconv.Itoa(s.Number) + ".", input: args, item: scope.item, own: scope.own, at: scope.at}
		var requests []StepRequest
		var ret []byte
		switch {
		case s.Saved != nil:
			inner.item, inner.own = nil, false
			if inner.at == "" {
				inner.at = s.FnAt()
			}
		case r.Chain != nil:
			requests, ret = r.Chain.Steps, r.Chain.Return
		}
		result = joinMarks(result, f.passing(scope, s, f.followLevel(s.Inline, requests, ret, inner)))
	}
	return result
}

// given returns the marks of what a function gives.
func (f *flows) given(scope *flowScope, s *Step, fn *steps.Entry) (marks []flowMark) {
	gives := fn.Spec().Gives
	for i := range gives {
		given := &gives[i]
		if !f.policy.knows(given.Label) {
			continue
		}
		if marks == nil {
			marks = takeMemory(&f.markMemory, len(gives))[:0]
		}
		way := &takeMemory(&f.wayMemory, 1)[0]
		*way = flowWay{step: s, level: scope.level, path: given.Path}
		marks = addMark(marks, flowMark{Label: steps.Label{Name: given.Label}, path: given.Path, way: way})
		if !slices.Contains(f.flow.Calls, given.Label) {
			f.flow.Calls = append(f.flow.Calls, given.Label)
		}
	}
	return marks
}

// resultMarks returns the marks of the result of a function's call, and notes what it keeps.
func (f *flows) resultMarks(scope *flowScope, s *Step, args []flowMark) []flowMark {
	spec, marks := s.Fn.Spec(), f.given(scope, s, s.Fn)
	if spec.Effect != steps.Read { // the calls of a resume need not be at the steps where they were
		marks = joinMarks(marks, f.assumed)
	}
	if spec.PassesArgs {
		marks = joinMarks(marks, f.passing(scope, s, wholly(args)))
	}
	if !spec.State && spec.Name != keptResult {
		return marks
	}
	if spec.State && spec.Effect != steps.Read {
		s.Labels = labelsOf(args)
		f.kept = joinMarks(f.kept, wholly(args))
	}
	if f.session != nil {
		way := &flowWay{step: s, level: scope.level}
		for _, label := range f.session.Kept(spec, WithCommon(s.knownArguments(), s.Common)) {
			marks = addMark(marks, flowMark{Label: label, way: way})
		}
	}
	if spec.State {
		marks = joinMarks(marks, f.passing(scope, s, f.kept))
	}
	return marks
}

// keptResult is the function that gives a kept result.
const keptResult = "result.get"

// knownArguments returns the arguments of a step as far as they are known before it runs.
func (s *Step) knownArguments() []byte {
	if s.Args == nil {
		return orEmpty(s.Literal)
	}
	return s.Args.Value()
}

// passing returns marks that pass through a step.
func (f *flows) passing(scope *flowScope, s *Step, marks []flowMark) []flowMark {
	if len(marks) == 0 {
		return nil
	}
	passed := slices.Clone(marks)
	for i := range passed {
		if w := passed[i].way; w.step != s || w.level != scope.level { // else a round of the step has passed it before
			passed[i].way = &flowWay{before: w, step: s, level: scope.level}
		}
	}
	return passed
}

// followUndo decides about the arguments of the call that undoes a step's call.
func (f *flows) followUndo(scope *flowScope, s *Step, r *StepRequest) {
	at := s.At + "/undo/args"
	var text []byte
	if r.Undo != nil {
		_, at = r.Undo.at(s.At + "/undo")
		text = orEmpty(r.Undo.Args)
	}
	f.given(scope, s, s.Undo.Fn) // its failure may be shown
	undoScope := *scope
	undoScope.own = scope.own && r.Undo != nil // else the configuration says it
	args := f.templateMarks(&undoScope, s.Undo.Args, at, text)
	byOwnNames(args, s.Undo.Fn)
	f.decide(scope, s, s.Undo.Fn, args, true)
}

// decide applies the rules to the arguments of a call.
func (f *flows) decide(scope *flowScope, s *Step, fn *steps.Entry, args []flowMark, called bool) {
	if f.trial || len(args) == 0 {
		return
	}
	var decided []uint16
	for i := range args {
		m := &args[i]
		for _, n := range f.policy.byLabel[m.Name] {
			rule := &f.policy.rules[n]
			if m.Model != rule.model() || !rule.reaches(fn, m.path, called) || slices.Contains(decided, n) {
				continue
			}
			decided = append(decided, n) // one way that a rule catches is enough
			d := FlowDecision{Rule: *rule, At: m.at, StepPath: scope.level + strconv.Itoa(s.Number), Function: fn.Spec().Name,
				Path: append(m.way.words(), sinkWords(s, fn, m.path, scope.level))}
			if scope.at != "" {
				d.At = scope.at
			}
			f.apply(s, &d)
		}
	}
}

// sinkWords names the argument that values reach.
func sinkWords(s *Step, fn *steps.Entry, path []schema.Element, level string) string {
	text := stepWords(s, level)
	if fn != s.Callee() {
		text = fn.Spec().Name + ", the undo of " + text
	}
	if len(path) > 0 {
		text += " " + strings.TrimPrefix(steps.FlowPath(path), ".")
	}
	return text
}

// apply does what a decision says.
func (f *flows) apply(s *Step, d *FlowDecision) {
	switch d.Rule.Do {
	case FlowApprove:
		f.asks = true
		s.Flows = append(s.Flows, d.text())
		f.flow.Decisions = append(f.flow.Decisions, *d)
	case FlowWarn:
		f.flow.Decisions = append(f.flow.Decisions, *d)
		f.Warnings.Add(fault.New(fault.FlowWarned, "%s values reach %s: %s", d.Rule.From, d.Rule.target(), strings.Join(d.Path, " → ")).Under(d.At))
	default:
		f.Faults.Add(fault.New(fault.FlowDenied, "%s values must not reach %s: %s. Leave them out", d.Rule.From, d.Rule.target(),
			strings.Join(d.Path, " → ")).Under(d.At))
	}
}

// target names what the rule protects.
func (r *FlowRule) target() string {
	switch r.To {
	case toWrites:
		return "what writes"
	case toDestroying:
		return "what destroys"
	}
	return "the role " + r.To
}
