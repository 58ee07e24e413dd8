package chain_test

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// TestFlowRuleFaults: rules that contradict each other, cannot hold or are incomplete are refused with their place.
func TestFlowRuleFaults(t *testing.T) {
	t.Parallel()
	deny := chain.FlowRule{From: "a", To: "r", Do: "deny"}
	for _, test := range []struct {
		rules    []chain.FlowRule
		at, want string
	}{
		{[]chain.FlowRule{{From: "a", To: "r", Do: "forbid"}}, "/flows/rules/0/do", "unknown value"},
		{[]chain.FlowRule{{From: "a", To: "r", Do: "deny", Through: "models"}}, "/flows/rules/0/through", "unknown value"},
		{[]chain.FlowRule{{To: "r", Do: "deny"}}, "/flows/rules/0", "from is missing"},
		{[]chain.FlowRule{{From: "a", Do: "deny"}}, "/flows/rules/0", "to is missing"},
		{[]chain.FlowRule{deny, deny}, "/flows/rules/1", "the same as rule 0"},
		{[]chain.FlowRule{deny, {From: "a", To: "r", Do: "warn"}}, "/flows/rules/1/do", "contradicts rule 0"},
		{[]chain.FlowRule{{From: "a", To: "destroy", Do: "approve"}, {From: "a", To: "write", Do: "deny"}}, "/flows/rules/0", "can never hold"},
		{[]chain.FlowRule{{From: "a", To: "destroy", Do: "deny"}, {From: "a", To: "write", Do: "approve"}}, "/flows/rules/1/do", "needs a journal"},
		{[]chain.FlowRule{{From: "a", To: "destroy", Do: "deny"}, {From: "a", To: "write", Do: "warn"}, {From: "a", To: "write", Do: "deny", Through: "model"}}, "", ""},
	} {
		_, err := chain.New(&chain.Options{Functions: newRegistry(t, mailbox()), Flows: test.rules})
		f, _ := fault.As(err)
		if test.want == "" && err == nil {
			continue
		}
		if f == nil || f.At != test.at || !strings.Contains(f.Message, test.want) {
			t.Errorf("%v: %v at %q, want %q at %q", test.rules, err, faultAt(f), test.want, test.at)
		}
	}
}

func faultAt(f *fault.Error) string {
	if f == nil {
		return ""
	}
	return f.At
}

var asksForRecipients = []chain.FlowRule{{From: "untrusted", To: "recipient", Do: "approve"}}

const toStranger = `{"steps":[{"mail.list":{}},{"mail.send":{"to":"$0.messages[0].from","body":"hi"}},{"mail.send":{"to":"ann@example.com"}}]}`

// TestFlowApproval: a call that a flow rule asks about waits for a person, whatever Approve says: the caller gets no token, its own approval
// is refused, and the approval of a person is about the way that the values come.
func TestFlowApproval(t *testing.T) {
	t.Parallel()
	j := newJournal(t, nil)
	engine := engineOf(t, mailbox(), chain.Options{Journal: j, Flows: asksForRecipients}, false)
	a := engine.Run(t.Context(), []byte(toStranger), nil)
	got := gjson.ParseBytes(a.JSON)
	const way = "untrusted: mail.list (step 0) $result.messages[*].from → mail.send (step 1) to"
	if codeOf(a) != fault.ApprovalRequired || got.Get("approve").Exists() || len(got.Get("error.calls").Array()) != 1 ||
		got.Get("error.calls.0.flows.0").Str != way || !strings.Contains(a.Error.Message, way) {
		t.Fatalf("got %s, want one call that waits for a person because of %s", a.JSON, way)
	}
	run := got.Get("resume").Str
	questions, _, f := engine.OpenQuestions(t.Context(), run, nil)
	if f != nil || len(questions) != 1 || !slices.Equal(questions[0].Calls[0].Flows, []string{way}) {
		t.Errorf("the open questions: %v, %v, want one with the way", questions, f)
	}
	refused := engine.Run(t.Context(), []byte(`{"resume":"`+run+`","approve":"oca_x"}`), nil)
	if codeOf(refused) != fault.Denied || !strings.Contains(refused.Error.Message, "only a person can approve") {
		t.Errorf("got %s, want denied", refused.JSON)
	}
	if _, f := engine.DecideOwn(t.Context(), run, "oca_x", &chain.Ruling{Rest: journal.Approved}, nil); f == nil || f.Code != fault.Denied {
		t.Errorf("the caller decides itself: %v", f)
	}
	if _, err := chain.Decide(t.Context(), j, run, &chain.Ruling{Rest: journal.Approved, By: "ann"}); err != nil {
		t.Fatal(err)
	}
	done := engine.Run(t.Context(), []byte(`{"resume":"`+run+`"}`), nil)
	if !done.OK || gjson.GetBytes(done.JSON, "steps.1.status").Str != "ok" {
		t.Errorf("after the approval: %s", done.JSON)
	}
}

// TestFlowApprovalIsOfItsWay: what was approved of a call before a flow rule asked about it does not count.
func TestFlowApprovalIsOfItsWay(t *testing.T) {
	t.Parallel()
	j := newJournal(t, nil)
	before := engineOf(t, mailbox(), chain.Options{Journal: j, Approve: steps.ApproveWrite}, false)
	a := before.Run(t.Context(), []byte(toStranger), nil)
	run, approve := gjson.GetBytes(a.JSON, "resume").Str, gjson.GetBytes(a.JSON, "approve").Str
	after := engineOf(t, mailbox(), chain.Options{Journal: j, Approve: steps.ApproveWrite, Flows: asksForRecipients}, false)
	a = after.Run(t.Context(), []byte(`{"resume":"`+run+`","approve":"`+approve+`"}`), nil)
	if codeOf(a) != fault.ApprovalRequired || gjson.GetBytes(a.JSON, "approve").Exists() {
		t.Errorf("got %s, want the question again, for a person", a.JSON)
	}
}

// TestFlowQuestion: a person at the client is asked with the way of the values, and a chain that only reads stops, too.
func TestFlowQuestion(t *testing.T) {
	t.Parallel()
	rules := []chain.FlowRule{{From: "private", To: "address", Do: "approve"}}
	engine := engineOf(t, mailbox(), chain.Options{Journal: newJournal(t, nil), Flows: rules}, false)
	var asked []chain.ApprovalCall
	caller := &chain.Caller{Approve: func(_ context.Context, calls []chain.ApprovalCall) (bool, error) {
		asked = calls
		return false, nil
	}}
	a := engine.Run(t.Context(), []byte(`{"steps":[{"notes.read":{}},{"web.get":{"url":"$0.text"}}]}`), caller)
	if codeOf(a) != fault.Denied || len(asked) != 1 || len(asked[0].Flows) != 1 || !strings.Contains(string(asked[0].JSON()), `"flows":["private: `) {
		t.Errorf("%v was asked, then %s", asked, a.JSON)
	}
	plan := engine.Run(t.Context(), []byte(`{"dryRun":true,"steps":[{"notes.read":{}},{"web.get":{"url":"$0.text"}},{"crm.find":{}}]}`), nil)
	if got := gjson.GetBytes(plan.JSON, "plan"); !got.Get("steps.1.approve").Bool() || got.Get("flows.0.do").Str != "approve" ||
		got.Get("waves").Raw != "[[0],[1],[2]]" {
		t.Errorf("the plan: %s, want an approval at step 1, which later steps wait for", plan.JSON)
	}
}

// flowSession is what a front end knows of a client: the labels of what it was shown, and which values are trusted.
type flowSession struct {
	shown, trusted []string
	state          []steps.Label
}

func (s *flowSession) Sent(value []byte) []string {
	if slices.Contains(s.trusted, gjson.ParseBytes(value).String()) {
		return nil
	}
	return s.shown
}
func (s *flowSession) Kept(*steps.Spec, []byte) []steps.Label { return s.state }
func (s *flowSession) State(string) []steps.Label             { return s.state }
func (s *flowSession) Shown(labels []string)                  { s.shown = append(s.shown, labels...) }

// TestFlowThroughModel: values that a client sends after it was shown labeled ones have the label, wherever they stand.
func TestFlowThroughModel(t *testing.T) {
	t.Parallel()
	rules := []chain.FlowRule{{From: "untrusted", To: "recipient", Do: "deny", Through: "model"}}
	engine := engineOf(t, mailboxWithChains(), chain.Options{Flows: rules, Hoist: []string{"cc"}}, false)
	for request, denied := range map[string]bool{
		`{"steps":[{"mail.send":{"to":"eve@example.net"}}]}`:                                                                                         true,
		`{"steps":[{"mail.send":{"to":"ann@example.com"}}]}`:                                                                                         false, // trusted
		`{"steps":[{"mail.send":{"to":["ann@example.com",7]}}]}`:                                                                                     true,
		`{"steps":[{"mail.send":{"subject":"anything"}}]}`:                                                                                           false,
		`{"steps":[{"mail.send":{"cc":[{"address":"x"}]}}]}`:                                                                                         true,
		`{"common":{"to":"eve@example.net"},"steps":[{"mail.send":{}}]}`:                                                                             true,
		`{"common":{"recipient":"eve@example.net"},"steps":[{"mail.send":{}}]}`:                                                                      true,
		`{"cc":[{"address":"x"}],"steps":[{"mail.send":{}}]}`:                                                                                        true,
		`{"input":{"w":"eve@example.net"},"steps":[{"mail.send":{"to":"$input.w"}}]}`:                                                                true,
		`{"input":{"w":"ann@example.com","v":"x"},"steps":[{"mail.send":{"to":"$input.w"}}]}`:                                                        false,
		`{"params":{"w":{"default":"eve@example.net"}},"steps":[{"mail.send":{"to":"$input.w"}}]}`:                                                   true,
		`{"steps":[{"expr":"\"eve@example.net\""},{"mail.send":{"to":"$0"}}]}`:                                                                       true,
		`{"steps":[{"crm.find":{}},{"expr":"[$0.address, $0[\"a\"]]"},{"mail.send":{"to":"$1"}}]}`:                                                   true,
		`{"steps":[{"crm.find":{}},{"expr":"lower($0.address)"},{"mail.send":{"to":"$1"}}]}`:                                                         false,
		`{"steps":[{"crm.find":{}},{"mail.send":{"to":"$0.address"}}]}`:                                                                              false,
		`{"steps":[{"crm.find":{},"orElse":{"address":"x"}},{"mail.send":{"to":"$0.address"}}]}`:                                                     true,
		`{"steps":[{"crm.find":{}},{"mail.send":{"to":"$0.adress ?? \"eve@example.net\""}}]}`:                                                        true,
		`{"steps":[{"crm.find":{},"select":"$result.no ?? \"eve@example.net\""},{"mail.send":{"to":"$0"}}]}`:                                         true,
		`{"steps":[{"crm.find":{},"select":"$result.address ?? []"},{"mail.send":{"to":"$0"}}]}`:                                                     false,
		`{"steps":[{"crm.find":{}},{"expr":"$0.no ?? \"eve@example.net\""},{"mail.send":{"to":"$1"}}]}`:                                              true,
		`{"steps":[{"crm.find":{}},{"mail.send":{"to":"$item"},"forEach":"$0.no ?? [\"eve@example.net\"]"}]}`:                                        true,
		`{"steps":[{"crm.find":{},"repeat":{"until":"true","max":2,"collect":"$result.no ?? [\"eve@example.net\"]"}},{"mail.send":{"to":"$0[0]"}}]}`: true,
		`{"steps":[{"crm.find":{}},{"mail.send":{"to":"a <${$0.address}>"}}]}`:                                                                       true,
		`{"steps":[{"chain":{"steps":[{"mail.send":{"to":"$input.a"}}]},"args":{"a":"x"}}]}`:                                                         true,
		`{"steps":[{"chain":{"steps":[{"crm.find":{}}],"return":"eve@example.net"}},{"mail.send":{"to":"$0"}}]}`:                                     true,
		`{"steps":[{"chain.forward":{"to":"x","text":"y"}}]}`:                                                                                        true,
		`{"steps":[{"chain.forward":{"to":"ann@example.com","text":"y"}}]}`:                                                                          false,
		`{"steps":[{"mail.file":{},"undo":{"mail.send":{"to":"x"}}}]}`:                                                                               true,
		`{"steps":[{"text.same":{"a":"eve@example.net"}},{"mail.send":{"to":"$0"}}]}`:                                                                true,
		`{"steps":[{"mail.send":{"to":"$item"},"forEach":"[\"eve@example.net\"]"}]}`:                                                                 true,
	} {
		caller := &chain.Caller{Labels: &flowSession{shown: []string{"untrusted"}, trusted: []string{"ann@example.com"}}}
		a := engine.Run(t.Context(), []byte(request), caller)
		isDenied := len(a.Faults) > 0 && a.Faults[0].Code == fault.FlowDenied
		if isDenied != denied || !isDenied && !a.OK {
			t.Errorf("%s: %s, want denied: %t", request, a.JSON, denied)
		}
		if fresh := engine.Run(t.Context(), []byte(request), &chain.Caller{Labels: &flowSession{}}); !fresh.OK {
			t.Errorf("%s, before anything was shown: %s", request, fresh.JSON)
		}
	}
	call := func(args string) *chain.Answer {
		return engine.Call(t.Context(), &chain.Call{Function: "mail.send", Args: []byte(args)},
			&chain.Caller{Labels: &flowSession{shown: []string{"untrusted"}, trusted: []string{"ann@example.com"}}})
	}
	if a := call(`{"To":"$0"}`); codeOf(a) != fault.FlowDenied {
		t.Errorf("a call: %s", a.JSON)
	}
	if a := call(`{"to":"ann@example.com"}`); !a.OK {
		t.Errorf("a call of trusted values: %s", a.JSON)
	}
}

// TestFlowOfManyLabels: each of many labels of a value is followed, also in loops.
func TestFlowOfManyLabels(t *testing.T) {
	t.Parallel()
	var rules []chain.FlowRule
	before := &flowSession{}
	for i := range 70 {
		label := "l" + strconv.Itoa(i)
		rules = append(rules, chain.FlowRule{From: label, To: "recipient", Do: "deny"})
		before.state = append(before.state, steps.Label{Name: label}, steps.Label{Name: label, Model: true})
	}
	get := steps.Function{Spec: steps.Spec{Name: "state.get", State: true, Effect: steps.Read}, Call: func(context.Context, []byte) ([]byte, error) {
		return []byte(`{"value":"x"}`), nil
	}}
	engine := engineOf(t, append(mailbox(), get), chain.Options{Flows: rules}, false)
	for request, want := range map[string]int{
		`{"steps":[{"state.get":{"key":"k"}},{"mail.send":{"to":"$0.value"}}]}`:                                                    70,
		`{"steps":[{"state.get":{"key":"k"}},{"mail.file":{"by":"$0.value"}}]}`:                                                    0,
		`{"steps":[{"state.get":{"key":"k"}},{"mail.send":{"to":"$0.value","body":"$result"},"repeat":{"until":"true","max":2}}]}`: 70,
	} {
		if a := engine.Run(t.Context(), []byte(request), &chain.Caller{Labels: before}); len(a.Faults) != want {
			t.Errorf("%s: %d faults, want %d: %.300s", request, len(a.Faults), want, a.JSON)
		}
	}
}

// TestFlowIsShown: the session is told the labels of the answered value; of a failure, those of all that the chain may have called.
func TestFlowIsShown(t *testing.T) {
	t.Parallel()
	rules := []chain.FlowRule{{From: "untrusted", To: "recipient", Do: "deny", Through: "model"}, {From: "private", To: "address", Do: "deny"}}
	engine := engineOf(t, append(mailbox(), failsNow), chain.Options{Flows: rules}, false)
	for request, want := range map[string]string{
		`{"steps":[{"mail.list":{}}]}`:                                             "untrusted",
		`{"steps":[{"mail.list":{}}],"return":"$0.owner"}`:                         "",
		`{"steps":[{"mail.list":{}},{"notes.read":{}}],"return":["$0","$1.text"]}`: "private untrusted",
		`{"steps":[{"notes.read":{}},{"expr":"len($0.text)"}]}`:                    "private",
		`{"steps":[{"notes.read":{}},{"fails.now":{}}]}`:                           "private",
		`{"trace":"full","steps":[{"notes.read":{}},{"crm.find":{}}]}`:             "private",
		`{"steps":[{"notes.read":{}},{"web.get":{"url":"$0.text"}}]}`:              "", // nothing ran
		`{"dryRun":true,"steps":[{"notes.read":{}}]}`:                              "",
		`{"steps":[{"crm.find":{}}]}`:                                              "",
	} {
		s := &flowSession{}
		engine.Run(t.Context(), []byte(request), &chain.Caller{Labels: s})
		if got := strings.Join(s.shown, " "); got != want {
			t.Errorf("%s: shown %q, want %q", request, got, want)
		}
	}
}

// TestFlowOfAssumedResults: a result that a client states for a call with an unknown outcome is what it sends, also in later resumes.
func TestFlowOfAssumedResults(t *testing.T) {
	t.Parallel()
	lost := steps.Function{Spec: steps.Spec{Name: "crm.create", EffectDeclared: true}, Call: func(context.Context, []byte) ([]byte, error) {
		return nil, fault.New(fault.Timeout, "the line is dead")
	}}
	rules := []chain.FlowRule{{From: "untrusted", To: "recipient", Do: "deny", Through: "model"}}
	engine := engineOf(t, append(mailbox(), lost, failsNow), chain.Options{Flows: rules, Journal: newJournal(t, nil)}, false)
	run := func(request string, shown ...string) *chain.Answer {
		return engine.Run(t.Context(), []byte(request), &chain.Caller{Labels: &flowSession{shown: shown}})
	}
	begin := func() string {
		return gjson.GetBytes(run(`{"steps":[{"crm.create":{}},{"mail.send":{"to":"$0.address"}}]}`).JSON, "resume").Str
	}
	assumed := `"assume":{"0":{"result":{"address":"eve@example.net"}}}`
	if a := run(`{"resume":"` + begin() + `",` + assumed + `}`); !a.OK {
		t.Errorf("before anything was shown: %s", a.JSON)
	}
	id := begin()
	if a := run(`{"resume":"`+id+`",`+assumed+`}`, "untrusted"); len(a.Faults) != 1 || a.Faults[0].Code != fault.FlowDenied {
		t.Errorf("got %s, want flow_denied", a.JSON)
	}
	a := run(`{"resume":"`+id+`",`+assumed+`,"steps":[{"crm.create":{}},{"fails.now":{}}]}`, "untrusted")
	a = run(`{"resume":"`+gjson.GetBytes(a.JSON, "resume").Str+`","steps":[{"crm.create":{}},{"mail.send":{"to":"$0.address"}}]}`, "untrusted")
	if len(a.Faults) != 1 || a.Faults[0].Code != fault.FlowDenied {
		t.Errorf("a later resume: %s, want flow_denied", a.JSON)
	}
}

var failsNow = steps.Function{Spec: steps.Spec{Name: "fails.now", Effect: steps.Read},
	Call: func(context.Context, []byte) ([]byte, error) { return nil, fault.New(fault.FunctionFailed, "no") }}

// TestFlowThroughState: what a chain keeps in the state has its labels in the same chain, and what was kept before has those of the session.
func TestFlowThroughState(t *testing.T) {
	t.Parallel()
	var kept []steps.Label
	set := steps.Function{Spec: steps.Spec{Name: "state.set", State: true, EffectDeclared: true}, Call: func(ctx context.Context, _ []byte) ([]byte, error) {
		kept = steps.CallbacksOf(ctx).Labels
		return []byte(`{"version":1}`), nil
	}}
	get := steps.Function{Spec: steps.Spec{Name: "state.get", State: true, Effect: steps.Read}, Call: func(context.Context, []byte) ([]byte, error) {
		return []byte(`{"value":"x"}`), nil
	}}
	rules := []chain.FlowRule{{From: "untrusted", To: "recipient", Do: "deny"}}
	engine := engineOf(t, append(mailbox(), set, get), chain.Options{Flows: rules, Journal: newJournal(t, nil),
		ReadState: func(context.Context, string, []string) ([]byte, error) { return []byte(`{"k":"x"}`), nil }}, false)
	before := &flowSession{state: []steps.Label{{Name: "untrusted"}}}
	for _, test := range []struct {
		request string
		labels  *flowSession
		denied  bool
	}{
		{`{"steps":[{"mail.list":{}},{"state.set":{"key":"k","value":"$0"}},{"state.get":{"key":"k"}},{"mail.send":{"to":"$2.value"}}]}`, &flowSession{}, true},
		{`{"steps":[{"state.set":{"key":"k","value":1}},{"state.get":{"key":"k"}},{"mail.send":{"to":"$1.value"}}]}`, &flowSession{}, false},
		{`{"steps":[{"state.get":{"key":"k"}},{"mail.send":{"to":"$0.value"}}]}`, before, true},
		{`{"steps":[{"mail.send":{"to":"$state.k"}}]}`, before, true},
		{`{"steps":[{"mail.send":{"to":"$state.k"}}]}`, &flowSession{}, false},
		{`{"steps":[{"mail.list":{}},{"chain":{"steps":[{"state.get":{"key":"k"}},{"mail.send":{"to":"$0.value"}},{"state.set":{"key":"k","value":"$item"}}]},"forEach":"$0.messages"}]}`, &flowSession{}, true},
	} {
		a := engine.Run(t.Context(), []byte(test.request), &chain.Caller{Labels: test.labels})
		if isDenied := len(a.Faults) > 0 && a.Faults[0].Code == fault.FlowDenied; isDenied != test.denied || !isDenied && !a.OK {
			t.Errorf("%s: %s, want denied: %t", test.request, a.JSON, test.denied)
		}
	}
	engine.Run(t.Context(), []byte(`{"steps":[{"mail.list":{}},{"state.set":{"key":"k","value":"$0.messages[0].body"}}]}`), nil)
	if !slices.Equal(kept, []steps.Label{{Name: "untrusted"}}) {
		t.Errorf("state.set gets the labels %v, want untrusted", kept)
	}
}
