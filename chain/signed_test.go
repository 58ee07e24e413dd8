package chain_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

func noState(context.Context, string, []string) ([]byte, error) { return []byte("{}"), nil }

// chainsByName returns saved chains by the names of their functions.
func chainsByName(t testing.TB, texts map[string]string) func(name string) *steps.SavedChain {
	t.Helper()
	known := map[string]*steps.SavedChain{}
	for name, text := range texts {
		fn, faults := chain.Saved(strings.TrimPrefix(name, "chain."), []byte(text), &chain.Options{ReadState: noState})
		if len(faults) > 0 {
			t.Fatalf("%s: %v", name, faults[0])
		}
		known[name] = fn.Saved
	}
	return func(name string) *steps.SavedChain { return known[name] }
}

func signedForm(t testing.TB, text, inner string) string {
	t.Helper()
	form, f := chain.SignedForm("chain.pay", chainsByName(t, map[string]string{"chain.pay": text, "chain.inner": inner}))
	if f != nil {
		t.Fatalf("%s: %v", text, f)
	}
	return string(form)
}

const (
	planText  = `{"params":{"sum":{"type":"number"}},"steps":[{"fn":"bank.send","args":{"sum":"$input.sum","fee":1.5}},{"fn":"chain.inner","args":{}}]}`
	innerText = `{"steps":[{"fn":"bank.log","args":{"text":"paid"}}]}`
)

// TestSignedForm: one form for all spellings of a chain, and another for each that does something else.
func TestSignedForm(t *testing.T) {
	t.Parallel()
	want := signedForm(t, planText, innerText)
	for _, same := range []string{
		strings.Replace(planText, `{"params"`, "{ \"$schema\":\"x\",\n\"description\":\"Pays.\", \"params\"", 1),
		strings.Replace(planText, `{"fn":"bank.send","args":{"sum":"$input.sum","fee":1.5}}`, `{"bank.send":{"fee":15e-1,"sum":"$input.\u0073um"}}`, 1),
	} {
		if got := signedForm(t, same, innerText); got != want {
			t.Errorf("%s has the form\n%s, want\n%s", same, got, want)
		}
	}
	for _, other := range [][2]string{
		{strings.Replace(planText, "1.5", "15", 1), innerText}, {strings.Replace(planText, "bank.send", "bank.Send", 1), innerText},
		{strings.Replace(planText, `{"type":"number"}`, `{}`, 1), innerText}, {planText, strings.Replace(innerText, "paid", "Paid", 1)},
		{strings.Replace(planText, `{"params"`, `{"onError":"undo","params"`, 1), innerText},
		{strings.Replace(planText, `"steps"`, `"return":"$0","steps"`, 1), innerText},
	} {
		if got := signedForm(t, other[0], other[1]); got == want {
			t.Errorf("%s and %s have the form of another plan", other[0], other[1])
		}
	}
	renamed, f := chain.SignedForm("chain.other", chainsByName(t, map[string]string{"chain.other": planText, "chain.inner": innerText}))
	if f != nil || string(renamed) == want {
		t.Errorf("under another name: %s, %v; want another form", renamed, f)
	}
}

// TestUnsignable: what a signature could say nothing about is refused.
func TestUnsignable(t *testing.T) {
	t.Parallel()
	for text, code := range map[string]fault.Code{
		`{"steps":[{"fn":"bank.send","args":{"sum":"$state.sum"}}]}`:                                     fault.NotSupported,
		`{"steps":[{"expr":"1 + $\u0073tate.sum"}]}`:                                                     fault.NotSupported,
		`{"input":{"sum":1},"steps":[{"fn":"bank.send","args":{"sum":"$input.sum"}}]}`:                   fault.NotSupported,
		`{"steps":[{"fn":"chain.broken"}]}`:                                                              fault.UnknownFunction,
		`{"params":{"sum":{}},"input":{"sum":1},"steps":[{"fn":"bank.send","args":{"s":"$input.sum"}}]}`: "",
	} {
		_, f := chain.SignedForm("chain.pay", chainsByName(t, map[string]string{"chain.pay": text}))
		if got := fault.CodeOf(codedError(f)); got != code {
			t.Errorf("%s: %v, want %q", text, f, code)
		}
	}
	if _, f := chain.SignedForm("chain.none", chainsByName(t, nil)); f == nil || f.Code != fault.UnknownFunction {
		t.Errorf("no chain: %v, want unknown_function", f)
	}
}

func codedError(f *fault.Error) error {
	if f == nil {
		return nil
	}
	return f
}

// planEngine is an engine with a signed chain that needs approval, and a caller who may only call such chains.
func planEngine(t *testing.T) (e *chain.Engine, caller *chain.Caller, sent func() []string) {
	t.Helper()
	var log []string
	call := func(_ context.Context, args []byte) ([]byte, error) {
		log = append(log, string(args))
		return args, nil
	}
	catalog, err := steps.NewCatalog(nil)
	must(t, err)
	t.Cleanup(func() { catalog.Close() })
	schema := json.RawMessage(`{"type":"object","properties":{"sum":{"type":"number"},"note":{"type":"string"}}}`)
	must(t, catalog.Add("bank", offered{
		{Spec: steps.Spec{Name: "bank.send", EffectDeclared: true, Tier: steps.TierAdmin, Approve: steps.ApproveWrite, Input: schema}, Call: call},
		{Spec: steps.Spec{Name: "bank.secret.rate", Effect: steps.Read, EffectDeclared: true}, Call: call}}))
	var saved offered
	for name, text := range map[string]string{
		"pay":   `{"params":{"sum":{"type":"number","maximum":100}},"steps":[{"fn":"bank.send","args":{"sum":"$input.sum"}}]}`,
		"hello": `{"steps":[{"fn":"bank.secret.rate","args":{"note":"hi"}}],"return":"$0.note"}`,
		"other": `{"steps":[{"fn":"bank.secret.rate","args":{}}]}`,
	} {
		fn, faults := chain.Saved(name, []byte(text), &chain.Options{})
		if len(faults) > 0 {
			t.Fatal(faults)
		}
		if name != "other" {
			fn.Saved.Signed = "key"
		}
		saved = append(saved, *fn)
	}
	must(t, catalog.Add(steps.ChainSource, saved))
	e, err = chain.New(&chain.Options{Functions: catalog, Journal: newJournal(t, nil), Hoist: []string{"note"}})
	must(t, err)
	rights := steps.Rights{Plans: true}
	return e, &chain.Caller{ID: "bot", Functions: rights.View(catalog), PlansOnly: true}, func() []string {
		list := log
		log = nil
		return list
	}
}

type offered []steps.Function

func (o offered) Functions() []steps.Function { return o }
func (offered) Close() error                  { return nil }

// TestPlanCalls: a caller of plans calls one signed chain at a time, with arguments that its params allow, and can change nothing else.
func TestPlanCalls(t *testing.T) {
	t.Parallel()
	e, caller, sent := planEngine(t)
	for request, want := range map[string]string{
		`{"steps":[{"fn":"chain.hello","args":{}}],"lite":true}`:                                                    `"hi"`,
		`{"steps":[{"chain.hello":{}}],"lite":true,"budget":{"maxTotalTokens":500},"trace":"none","format":"json"}`: `"hi"`,
		`{"steps":[{"fn":"chain.hello"}],"lite":true,"input":null}`:                                                 `"hi"`,
		`{"steps":[{"fn":"chain.hello"}],"dryRun":true}`:                                                            "denied", `{"steps":[{"fn":"chain.hello"}],"trace":"full"}`: `"hi"`,
		`{"steps":[{"fn":"chain.hello","args":{"note":"x"}}]}`:  "bad_arguments",
		`{"steps":[{"fn":"chain.pay","args":{"sum":101}}]}`:     "bad_arguments",
		`{"steps":[{"fn":"chain.pay","args":{}}]}`:              "bad_arguments",
		`{"steps":[{"fn":"bank.secret.rate","args":{}}]}`:       "unknown_function",
		`{"steps":[{"fn":"chain.other","args":{}}]}`:            "unknown_function",
		`{"steps":[{"fn":"chain.hello"},{"fn":"chain.hello"}]}`: "denied",
		`{"steps":[]}`:             "denied",
		`{"steps":[{"expr":"1"}]}`: "denied",
		`{"steps":[{"chain":{"steps":[{"fn":"chain.hello"}]}}]}`:                   "denied",
		`{"steps":[{"fn":"chain.hello","forEach":"1..3"}]}`:                        "denied",
		`{"steps":[{"fn":"chain.hello","orElse":1}]}`:                              "denied",
		`{"steps":[{"fn":"chain.hello","timeoutMs":1}]}`:                           "denied",
		`{"steps":[{"fn":"chain.hello","when":"false"}]}`:                          "denied",
		`{"steps":[{"fn":"chain.pay","args":{"sum":"$input.n"}}],"input":{"n":1}}`: "denied",
		`{"steps":[{"fn":"chain.pay","args":{"sum":"$state.n"}}]}`:                 "denied",
		`{"steps":[{"fn":"chain.hello"}],"common":{"sum":1}}`:                      "denied",
		`{"steps":[{"fn":"chain.hello"}],"note":"x"}`:                              "denied",
		`{"steps":[{"fn":"chain.hello"}],"return":"$0"}`:                           "denied",
		`{"steps":[{"fn":"chain.hello"}],"onError":"undo"}`:                        "denied",
		`{"steps":[{"fn":"chain.hello"}],"budget":{"maxCalls":1}}`:                 "denied",
		`{"steps":[{"fn":"chain.hello"}],"key":"k"}`:                               "denied",
		`{"steps":[{"fn":"chain.hello"}],"durable":true}`:                          "denied",
		`{"resume":"run_x","replace":{}}`:                                          "denied",
		`{"resume":"run_x","undo":true}`:                                           "denied",
		`{"resume":"run_x","steps":[{"fn":"chain.hello"}]}`:                        "denied",
		`{"resume":"run_x","approve":"oca_x"}`:                                     "token_expired",
	} {
		a := e.Run(t.Context(), []byte(request), caller)
		if !strings.Contains(string(a.JSON), want) || strings.Contains(string(a.JSON), "secret") && !strings.Contains(request, "secret") {
			t.Errorf("%s: %s, want %s, and no name of another function", request, a.JSON, want)
		}
		if calls := sent(); len(calls) > 0 && !strings.Contains(want, "hi") {
			t.Errorf("%s calls %v", request, calls)
		}
	}
	a := e.Call(t.Context(), &chain.Call{Function: "chain.hello", Args: []byte(`{}`)}, caller)
	if !a.OK || !strings.Contains(string(a.JSON), "hi") {
		t.Errorf("as one call: %s", a.JSON)
	}
	if a := e.Call(t.Context(), &chain.Call{Function: "bank.send", Args: []byte(`{}`)}, caller); codeOf(a) == "" || len(sent()) > 1 {
		t.Errorf("a call of another function: %s", a.JSON)
	}
}

// TestPlanApproval: a plan whose steps need approval asks, and its caller resumes it with approve alone. What it calls is called with the
// rights of the signature.
func TestPlanApproval(t *testing.T) {
	t.Parallel()
	e, caller, sent := planEngine(t)
	a := e.Run(t.Context(), []byte(`{"steps":[{"fn":"chain.pay","args":{"sum":7}}]}`), caller)
	run, approve := gjson.GetBytes(a.JSON, "resume").Str, gjson.GetBytes(a.JSON, "approve").Str
	if codeOf(a) != fault.ApprovalRequired || gjson.GetBytes(a.JSON, "error.calls.0.args.sum").Raw != "7" {
		t.Fatalf("%s, want a question", a.JSON)
	}
	for _, more := range []string{`"replace":{"0":{"fn":"chain.pay","args":{"sum":8}}}`, `"lite":true`, `"assume":{"0":"applied"}`} {
		if a := e.Run(t.Context(), fmt.Appendf(nil, `{"resume":%q,"approve":%q,%s}`, run, approve, more), caller); !strings.Contains(string(a.JSON), "denied") {
			t.Errorf("with %s: %s, want denied", more, a.JSON)
		}
	}
	if calls := sent(); len(calls) > 0 {
		t.Errorf("calls %v before the approval", calls)
	}
	if a = e.Run(t.Context(), fmt.Appendf(nil, `{"resume":%q,"approve":%q}`, run, approve), caller); !a.OK || strings.Join(sent(), " ") != `{"sum":7}` {
		t.Errorf("approved: %s", a.JSON)
	}
}

// TestRunBeforePlans: a caller that was given plans only cannot go on with a run that it began as another chain, not even one of plans.
func TestRunBeforePlans(t *testing.T) {
	t.Parallel()
	e, caller, sent := planEngine(t)
	before := *caller
	before.Functions, before.PlansOnly = nil, false
	for _, chain := range []string{
		`{"steps":[{"fn":"chain.hello"},{"fn":"chain.pay","args":{"sum":7}}]}`,
		`{"steps":[{"fn":"chain.pay","args":{"sum":"$item"},"forEach":"[7,8]"}]}`,
		`{"input":{"n":7},"steps":[{"fn":"chain.pay","args":{"sum":"$input.n"}}]}`,
	} {
		a := e.Run(t.Context(), []byte(chain), &before)
		resume := fmt.Appendf(nil, `{"resume":%q,"approve":%q}`, gjson.GetBytes(a.JSON, "resume").Str, gjson.GetBytes(a.JSON, "approve").Str)
		if codeOf(a) != fault.ApprovalRequired {
			t.Fatalf("%s: %s, want a question", chain, a.JSON)
		}
		sent()
		if a := e.Run(t.Context(), resume, caller); !strings.Contains(string(a.JSON), "did not begin as the call of a plan") || len(sent()) > 0 {
			t.Errorf("%s goes on for a caller of plans: %s", chain, a.JSON)
		}
		if a := e.Run(t.Context(), resume, &before); !a.OK {
			t.Errorf("%s: %s", chain, a.JSON)
		}
		sent()
	}
}
