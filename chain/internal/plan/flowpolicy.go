package plan

import (
	"slices"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/schema"
)

// FlowRule is chain.FlowRule.
type FlowRule struct{ From, To, Do, Through string }

// The words of flow rules.
const (
	FlowDeny     = "deny"
	FlowApprove  = "approve"
	FlowWarn     = "warn"
	FlowByChain  = "chain"
	FlowByModel  = "model"
	toWrites     = "write"
	toDestroying = "destroy"
)

// FlowPolicy are the flow rules of an engine.
type FlowPolicy struct {
	rules   []FlowRule
	model   bool                // some rule is through model
	byLabel map[string][]uint16 // the numbers of the rules about a label
}

// NewFlowPolicy returns a policy with these rules.
func NewFlowPolicy(rules []FlowRule) *FlowPolicy {
	p := &FlowPolicy{rules: rules, byLabel: map[string][]uint16{}}
	for i, r := range rules {
		p.model = p.model || r.model()
		p.byLabel[r.From] = append(p.byLabel[r.From], uint16(i))
	}
	return p
}

// CheckFlowRules returns what is wrong with the first faulty rule, At /N and its field; nil: nothing. Rules contradict each other if they
// do different things about the same values; a rule cannot hold if another one catches all of its values and does at least as much.
func CheckFlowRules(rules []FlowRule) *fault.Error {
	for i := range rules {
		if f := rules[i].check(); f != nil {
			return f.Under(fault.Index("", i))
		}
		for j := range rules {
			if f := rules[i].checkBeside(&rules[j], i, j); f != nil {
				return f.Under(fault.Index("", i))
			}
		}
	}
	return nil
}

// check returns what is wrong with a rule of its own.
func (r *FlowRule) check() *fault.Error {
	for _, word := range []struct {
		at, value string
		words     []string
	}{{"/do", r.Do, flowStrengths}, {"/through", r.Through, []string{"", FlowByChain, FlowByModel}}} {
		if !slices.Contains(word.words, word.value) {
			f := fault.New(fault.BadRequest, "unknown value %q", fault.Clip(word.value, 60)).Under(word.at)
			f.Nearest = fault.Nearest(word.value, word.words, 1)
			return f
		}
	}
	switch {
	case r.From == "":
		return fault.New(fault.BadRequest, "which values? from is missing: a label that functions give")
	case r.To == "":
		return fault.New(fault.BadRequest, "where may they not go? to is missing: a role of arguments, write or destroy")
	}
	return nil
}

// checkBeside returns what is wrong with a rule, which is number i, beside another, which is number j.
func (r *FlowRule) checkBeside(other *FlowRule, i, j int) *fault.Error {
	if i == j || r.From != other.From || r.model() != other.model() {
		return nil
	}
	switch {
	case j < i && r.To == other.To && r.Do == other.Do:
		return fault.New(fault.BadRequest, "the same as rule %d: leave one out", j)
	case j < i && r.To == other.To:
		return fault.New(fault.BadRequest, "contradicts rule %d, which says %s of the same values: keep one of the two", j, other.Do).Under("/do")
	case r.To == toDestroying && other.To == toWrites && slices.Index(flowStrengths, r.Do) <= slices.Index(flowStrengths, other.Do):
		return fault.New(fault.BadRequest, "can never hold: what destroys also writes, and rule %d says %s of that", j, other.Do)
	}
	return nil
}

// flowStrengths are what a rule may do, the weakest first.
var flowStrengths = []string{FlowWarn, FlowApprove, FlowDeny}

// MustPlan reports whether calls of a function must be planned: it gives a label that rules name, keeps or gives values with their labels,
// or takes what a model writes where a rule forbids that. p may be nil.
func (p *FlowPolicy) MustPlan(spec *steps.Spec) bool {
	if p == nil {
		return false
	}
	return spec.State || spec.Name == keptResult || slices.ContainsFunc(spec.Gives, func(g steps.Given) bool { return p.knows(g.Label) }) ||
		slices.ContainsFunc(p.rules, func(r FlowRule) bool { return r.model() && r.concerns(spec) })
}

// concerns reports whether some argument of a function is where the rule forbids values.
func (r *FlowRule) concerns(spec *steps.Spec) bool {
	switch r.To {
	case toWrites:
		return spec.Effect != steps.Read
	case toDestroying:
		return spec.Effect == steps.Destroy
	}
	return slices.ContainsFunc(spec.Takes, func(t steps.Taken) bool { return t.Role == r.To })
}

// model reports whether the rule is about values that a model writes.
func (r *FlowRule) model() bool { return r.Through == FlowByModel }

// names reports whether some rule is about a label that a value has in one of the two ways.
func (p *FlowPolicy) names(label steps.Label) bool {
	return slices.ContainsFunc(p.byLabel[label.Name], func(i uint16) bool { return p.rules[i].model() == label.Model })
}

// knows reports whether some rule is about a label, whichever way values have it: what is through chain here is through model after it was
// shown.
func (p *FlowPolicy) knows(label string) bool { return p.byLabel[label] != nil }

// reaches reports whether a value at a path of a function's arguments is where the rule forbids it. called: the function itself is called,
// so that its effect counts; else the steps of the saved chain behind it count.
func (r *FlowRule) reaches(fn *steps.Entry, path []schema.Element, called bool) bool {
	spec := fn.Spec()
	switch r.To {
	case toWrites:
		return called && spec.Effect != steps.Read
	case toDestroying:
		return called && spec.Effect == steps.Destroy
	}
	covered, others := false, false
	for i := range spec.Takes {
		taken := &spec.Takes[i]
		if len(taken.Path) == 0 {
			others = others || taken.Role == r.To
			continue
		}
		if taken.Role == r.To && overlap(fn, taken.Path, path) {
			return true
		}
		covered = covered || len(taken.Path) <= len(path) && overlap(fn, taken.Path, path)
	}
	return others && !covered
}

// overlap reports whether one of two paths of a function's arguments begins with the other. The first element is an argument: in a, in any
// spelling that the function accepts, and in b by its own name.
func overlap(fn *steps.Entry, a, b []schema.Element) bool {
	for i := range min(len(a), len(b)) {
		switch {
		case i > 0 && !sameElement(a[i], b[i]):
			return false
		case i == 0 && a[0].Key != b[0].Key && argumentName(fn, a[0].Key) != b[0].Key:
			return false
		}
	}
	return true
}

// argumentName returns the function's own name of an argument.
func argumentName(fn *steps.Entry, name string) string {
	if declared := fn.Argument(name); declared != "" {
		return declared
	}
	return name
}

// sameElement reports whether two elements of paths may select the same value.
func sameElement(a, b schema.Element) bool {
	return a.Each || b.Each || a.Index || b.Index || a.Key == b.Key
}
