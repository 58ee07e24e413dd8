package chain

import (
	"cmp"
	"slices"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain/internal/facts"
	"github.com/onecall-mcp/onecall/chain/internal/plan"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/rawjson"
	"github.com/onecall-mcp/onecall/steps"
)

// FlowRule says what happens if values with a label reach an argument. It is decided on the plan of a chain, before anything runs: a value
// has the labels of all that it is made of by references and expressions.
type FlowRule struct {
	From string // a label; see steps.Given
	// To is a role (see steps.Taken), write (all arguments of functions that do not only read) or destroy (those of functions that destroy).
	To string
	// Do is deny (a fault, flow_denied: nothing runs), approve (the call waits until a person has approved it) or warn.
	Do string
	// Through says how the values come there: chain ("": chain), by the references of a chain, or model, by a model that was shown values with
	// the label and then writes others; see SessionLabels.
	Through string
}

// SessionLabels knows what the model of one client was shown, and what is kept for it. The engine asks it while it compiles a chain, and
// tells it what an answer shows. Many goroutines may use it.
type SessionLabels interface {
	// Sent returns the labels of a value that the client sends: those of what it was shown before, unless the value is trusted for some
	// reason. value is one JSON text, number, true, false or null of a request or, for an expression, its text as a JSON text. It is called
	// only if some rule is through model.
	Sent(value []byte) []string
	// Kept returns the labels of what a function returns that reads what is kept (Spec.State, or result.get). args are the arguments as far
	// as they are known, with null for each value that is not; where the value's name is not known, the labels are those of all values.
	Kept(function *steps.Spec, args []byte) []steps.Label
	// State returns the labels of the value of $state that has a key.
	State(key string) []steps.Label
	// Shown tells that the client is about to be shown values with labels. It is called before they leave: with an answer, and with a question
	// to a person.
	Shown(labels []string)
}

// Flow is what flow rules decide about a way of values through a chain.
type Flow struct {
	FlowRule
	At       string   // the JSON Pointer of what brings the values into the call
	StepPath string   // the path of the step whose call they reach: 3, 3.1 in an inline chain
	Function string   // the function that takes them
	Path     []string // in words: where the values come from, the steps between, and the argument that they reach
}

// checkFlows checks the flow rules, and makes a policy of them: bad_request, At /flows/rules/N.
func (o *Options) checkFlows() *fault.Error {
	if len(o.Flows) == 0 {
		return nil
	}
	if f := CheckFlowRules(o.Flows); f != nil {
		return f.Under("/flows/rules")
	}
	approve := slices.IndexFunc(o.Flows, func(r FlowRule) bool { return r.Do == plan.FlowApprove })
	if approve >= 0 && o.Journal == nil {
		return fault.New(fault.BadRequest, "a rule that approves needs a journal: what waits for approval is kept there").
			Under(fault.Index("/flows/rules", approve) + "/do")
	}
	o.policy = plan.NewFlowPolicy(planRules(o.Flows))
	return nil
}

// CheckFlowRules returns what is wrong with the first faulty rule, bad_request, At /N and its field; nil: nothing. Rules must not
// contradict each other, and each must be able to hold beside the others.
func CheckFlowRules(rules []FlowRule) *fault.Error { return plan.CheckFlowRules(planRules(rules)) }

func planRules(rules []FlowRule) []plan.FlowRule {
	list := make([]plan.FlowRule, len(rules))
	for i, r := range rules {
		list[i] = plan.FlowRule(r)
	}
	return list
}

// flowsOf returns what flow rules decide about a plan.
func flowsOf(p *plan.Plan) (list []Flow) {
	if p.Flow == nil {
		return nil
	}
	for _, d := range p.Flow.Decisions {
		list = append(list, Flow{FlowRule: FlowRule(d.Rule), At: d.At, StepPath: d.StepPath, Function: d.Function, Path: d.Path})
	}
	return list
}

// writeFlows writes what flow rules decide about a plan, if they decide something.
func writeFlows(w *rawjson.Writer, list []Flow) {
	if len(list) == 0 {
		return
	}
	w.OpenMember("flows", '[')
	for i := range list {
		f := &list[i]
		w.Open('{')
		w.Text("do", f.Do)
		w.Text("from", f.From)
		w.Text("to", f.To)
		if f.Through == plan.FlowByModel {
			w.Text("through", f.Through)
		}
		w.Text("step", f.StepPath)
		w.Text("at", f.At)
		w.Texts("path", f.Path)
		w.Close('}')
	}
	w.Close(']')
}

// assumedResults returns the results of calls that the client has stated, with this request or an earlier one of its run, if a rule looks
// at what a client sends.
func (s *request) assumedResults() (results [][]byte) {
	past := cmp.Or(s.ledger.Leased(), s.ledger.Previewed())
	if s.labels == nil || s.o.policy == nil || past == nil {
		return nil
	}
	gjson.ParseBytes(s.ledger.Resumption.Assume).ForEach(func(_, value gjson.Result) bool {
		if result := value.Get("result"); result.Exists() {
			results = append(results, []byte(result.Raw))
		}
		return true
	})
	for _, call := range past.Calls() {
		if call.Assumed && call.Result != nil {
			results = append(results, call.Result)
		}
	}
	return results
}

// recordWarned records, with the run, what flow rules warn of.
func (s *request) recordWarned(p *plan.Plan) {
	if s.ledger.Record == nil {
		return
	}
	for _, way := range p.Flow.Warned() {
		s.ledger.Record.Append(journal.Event{Kind: journal.Warned, Message: fault.ClipRunes(way, maxWay)})
	}
}

// maxWay bounds what the journal keeps of the way of values, in characters.
const maxWay = 300

// show tells the session that an answer is about to be shown, and returns its labels. A success shows the answered value; a failure may
// show what any function of the plan gave, and so may a trace with arguments.
func (s *request) show(ok bool) (labels []steps.Label) {
	labels = s.shownLabels(ok && s.form.Trace != "full" && !s.tellsFailures())
	s.tellShown(labels)
	return labels
}

// shownLabels returns the labels of the answered value alone, or of all that the functions of the plan give besides.
func (s *request) shownLabels(alone bool) []steps.Label {
	if s.flow == nil {
		return nil
	}
	labels := s.flow.Answer
	if !alone {
		labels = slices.Clone(labels)
		for _, name := range s.flow.Calls {
			labels = append(labels, steps.Label{Name: name})
		}
	}
	return steps.JoinLabels(labels)
}

// tellsFailures reports whether a success tells of failures, with what functions said.
func (s *request) tellsFailures() bool {
	if s.form.Lite || s.executed == nil {
		return false
	}
	failed := func(f facts.Step) bool { return f.Err != nil || f.Defaulted > 0 || len(f.FailedElements) > 0 }
	return slices.ContainsFunc(s.executed.Facts().Steps, failed)
}

// labelKept gives what is kept from now on its labels: those of the answered value alone, which is all that a success keeps at its end, or
// all that the plan may keep.
func (s *request) labelKept(alone bool) {
	if s.flow != nil && s.form.Results != nil {
		s.form.Results = s.form.Results.WithLabels(steps.LabelsText(s.shownLabels(alone)))
	}
}

// tellShown tells the session which labels the client is about to be shown.
func (s *request) tellShown(labels []steps.Label) {
	if s.labels == nil || len(labels) == 0 {
		return
	}
	names := make([]string, len(labels))
	for i, label := range labels {
		names[i] = label.Name
	}
	slices.Sort(names)
	s.labels.Shown(slices.Compact(names))
}
