package chain_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
	"pgregory.net/rapid"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// approvalEngine is an engine whose calls need approval. log has the calls that reached its store.
type approvalEngine struct {
	engine   *chain.Engine
	journal  *journal.Journal
	registry *steps.Registry
	log      []string
}

func newApprovalEngine(t interface{ Fatal(...any) }) *approvalEngine {
	g := &approvalEngine{}
	var functions []steps.Function
	for _, name := range []string{"guarded.put", "guarded.set"} {
		functions = append(functions, steps.Function{Spec: steps.Spec{Name: name, EffectDeclared: true, Approve: steps.ApproveWrite},
			Call: func(_ context.Context, args []byte) ([]byte, error) {
				g.log = append(g.log, name+" "+string(args))
				if gjson.GetBytes(args, "k").Str == "fail" {
					return nil, refuses()
				}
				return []byte(`{"id":"x"}`), nil
			}})
	}
	var err error
	if g.registry, err = steps.NewRegistry(functions, nil); err != nil {
		t.Fatal(err)
	}
	if g.journal, err = journal.New(&journal.Memory{}, nil); err != nil {
		t.Fatal(err)
	}
	if g.engine, err = chain.New(&chain.Options{Functions: g.registry, Journal: g.journal, MaxConcurrency: 1}); err != nil {
		t.Fatal(err)
	}
	return g
}

func quoted(text string) string {
	b, _ := json.Marshal(text) // strings can always be encoded
	return string(b)
}

// FuzzApproval sends arbitrary texts as the run, the approval and an argument. A call is made only if all three are those that were shown;
// otherwise the run can still be approved.
func FuzzApproval(f *testing.F) {
	for _, seed := range [][3]string{{"RUN", "APPROVE", "1"}, {"RUN", "APPROVE", "2"}, {"RUN", "APPROVEA", "1"}, {"RUN", "oca_", "1"},
		{"RUN", "PROOF", "1"}, {"RUN", "", "1"},
		{"run_", "APPROVE", "1"}, {"RUN ", "APPROVE", "1"}, {"", "APPROVE", "1"}, {"RUN\x00", "APPROVE\x00", "1\x00"}, {"RUN", "CUT", "1"}, {"RUN", "CUT", "$"}} {
		f.Add(seed[0], seed[1], seed[2])
	}
	g := newApprovalEngine(f)
	f.Cleanup(func() { g.journal.Close() })
	f.Fuzz(func(t *testing.T, resume, approve, k string) {
		g.log = nil
		first := g.engine.Run(t.Context(), []byte(`{"steps":[{"fn":"guarded.put","args":{"k":"1"}}]}`), nil)
		question, token := first.Question, gjson.GetBytes(first.JSON, "approve").Str
		placeholders := strings.NewReplacer("RUN", question.Run, "APPROVE", token, "PROOF", question.Proof, "CUT", token[:len(token)-1])
		resume, approve = placeholders.Replace(resume), placeholders.Replace(approve)
		for name, a := range map[string]*chain.Answer{
			"as a decision": g.engine.Run(t.Context(), []byte(`{"steps":[]}`), &chain.Caller{Decision: &chain.Decision{Run: resume, Proof: approve + "A", Yes: true}}),
			"by another caller": g.engine.Run(t.Context(), fmt.Appendf(nil, `{"resume":%s,"approve":%s}`, quoted(resume), quoted(approve)),
				&chain.Caller{ID: "another"}),
		} {
			if a.OK || len(g.log) > 0 || a.Error.Code == fault.Internal {
				t.Fatalf("%s: calls %q, answer %s; want no call, and a fault that is not internal", name, g.log, a.JSON)
			}
		}
		a := g.engine.Run(t.Context(), fmt.Appendf(nil, `{"resume":%s,"approve":%s,"replace":{"0":{"fn":"guarded.put","args":{"k":%s}}}}`,
			quoted(resume), quoted(approve), quoted(k)), nil)
		right := resume == question.Run && approve == token
		switch {
		case right && k == "1":
			if !a.OK || !slices.Equal(g.log, []string{`guarded.put {"k":"1"}`}) {
				t.Fatalf("right approval: calls %q, answer %s; want success and the approved call", g.log, a.JSON)
			}
		case a.OK || len(g.log) > 0 || a.Error.Code == fault.Internal:
			t.Fatalf("wrong approval: calls %q, answer %s; want no call, and a fault that is not internal", g.log, a.JSON)
		case !right && approve != "" && resume == question.Run:
			if a.Error.Code != fault.Denied && a.Error.Code != fault.Compile { // an argument may be a reference to nothing
				t.Fatalf("wrong approval: %s, want denied or compile", a.JSON)
			}
			if again := g.engine.Run(t.Context(), fmt.Appendf(nil, `{"resume":%q,"approve":%q}`, question.Run, token), nil); !again.OK ||
				len(g.log) != 1 {
				t.Fatalf("right approval after a wrong one: calls %q, answer %s; want success and one call", g.log, again.JSON)
			}
		}
	})
}

// FuzzDecide decides about arbitrary places, for arbitrary reasons. Calls at other places keep waiting, and a ruling that is refused changes
// nothing.
func FuzzDecide(f *testing.F) {
	for _, seed := range []string{"0", "1", "each", "each[1]", "1[0]", "1[", "[0]", "", "00", "1[0]x", "a\x00", "é", "0.1"} {
		f.Add(seed, "DIGEST", "why", true)
		f.Add(seed, "", "\xff\u202e", false)
	}
	f.Add("0", "another", "", true)
	g := newApprovalEngine(f)
	f.Cleanup(func() { g.journal.Close() })
	f.Fuzz(func(t *testing.T, place, digest, reason string, yes bool) {
		first := g.engine.Run(t.Context(), []byte(`{"steps":[{"fn":"guarded.put"},{"id":"each","fn":"guarded.set","forEach":"1..2","args":{"k":"$item"}}]}`), nil)
		run := first.Question.Run
		calls, err := chain.Waiting(t.Context(), g.journal, run)
		must(t, err)
		covered := map[string][]string{"0": {"0"}, "1": {"1[0]", "1[1]"}, "each": {"1[0]", "1[1]"}, "1[0]": {"1[0]"}, "1[1]": {"1[1]"},
			"each[0]": {"1[0]"}, "each[1]": {"1[1]"}}[place]
		r := &chain.Ruling{Digest: strings.ReplaceAll(digest, "DIGEST", chain.DigestOf(calls)), By: "ann", Reason: reason}
		if yes {
			r.Approve = []string{place}
		} else {
			r.Deny = []string{place}
		}
		waiting, err := chain.Decide(t.Context(), g.journal, run, r)
		accepted := covered != nil && (r.Digest == "" || r.Digest == chain.DigestOf(calls))
		if (err == nil) != accepted {
			t.Fatalf("%+v: %v, want accepted: %t", r, err, accepted)
		}
		if !accepted {
			covered = nil
			waiting, err = chain.Waiting(t.Context(), g.journal, run)
			must(t, err)
		}
		want := slices.DeleteFunc(placesOf(calls), func(at string) bool { return slices.Contains(covered, at) })
		if got := placesOf(waiting); !slices.Equal(got, want) {
			t.Fatalf("%+v: %q wait, want %q", r, got, want)
		}
	})
}

// drawnGuardedStep draws a step whose calls need approval.
func drawnGuardedStep(t *rapid.T) string {
	step := fmt.Sprintf(`"fn":%q`, rapid.SampledFrom([]string{"guarded.put", "guarded.set"}).Draw(t, "fn"))
	k := rapid.SampledFrom([]string{"1", "2", "fail", "é"}).Draw(t, "k")
	if rapid.Bool().Draw(t, "undo") {
		step += fmt.Sprintf(`,"undo":{"fn":"guarded.set","args":{"k":%q,"id":"$result.id"}}`, rapid.SampledFrom([]string{"u", "v"}).Draw(t, "by"))
	}
	if n := rapid.IntRange(0, 3).Draw(t, "elements"); n > 0 {
		return fmt.Sprintf(`{%s,"forEach":"1..%d","args":{"k":"%s${$item}"}}`, step, n, k)
	}
	return fmt.Sprintf(`{%s,"args":{"k":%q}}`, step, k)
}

func drawnGuardedChain(t *rapid.T) string {
	return "[" + strings.Join(rapid.SliceOfN(rapid.Custom(drawnGuardedStep), 1, 3).Draw(t, "steps"), ",") + "]"
}

// TestOnlyApprovedCalls: however a chain changes between its question and its resume, each call that reaches the store was shown with its
// undo, and approved after it was last made. A forged, used or cut approval, or that of another run, sends nothing.
func TestOnlyApprovedCalls(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		g := newApprovalEngine(t)
		defer g.journal.Close()
		a := g.engine.Run(t.Context(), []byte(`{"steps":`+drawnGuardedChain(t)+`}`), nil)
		approved := map[string]int{} // approved calls that may still be made
		var used []string            // approvals that were accepted
		for range rapid.IntRange(1, 6).Draw(t, "rounds") {
			if a.Question == nil {
				return // it has ended, or failed
			}
			run, token := a.Question.Run, gjson.GetBytes(a.JSON, "approve").Str
			sent, valid := token, true
			switch rapid.IntRange(0, 4).Draw(t, "approval") {
			case 0:
				at := rapid.IntRange(0, len(token)-1).Draw(t, "at")
				sent, valid = token[:at]+string(token[at]^1)+token[at+1:], false
			case 1:
				sent, valid = token[:rapid.IntRange(1, len(token)-1).Draw(t, "cut")], false
			case 2:
				if len(used) > 0 {
					sent, valid = rapid.SampledFrom(used).Draw(t, "used"), false
				}
			}
			request := fmt.Sprintf(`{"resume":%q,"approve":%q`, run, sent)
			if rapid.Bool().Draw(t, "changed") {
				request += `,"steps":` + drawnGuardedChain(t)
			}
			if valid {
				used = append(used, token)
				for i := range a.Question.Calls {
					approved[a.Question.Calls[i].Function+" "+string(a.Question.Calls[i].Args)]++
				}
			}
			g.log = nil
			next := g.engine.Run(t.Context(), []byte(request+"}"), nil)
			if !valid {
				if len(g.log) > 0 || next.Error == nil || next.Error.Code != fault.Denied {
					t.Fatalf("%s, not approved, makes the calls %q: %s, want none and denied", request, g.log, next.JSON)
				}
				continue
			}
			for _, call := range g.log {
				if approved[call]--; approved[call] < 0 {
					t.Fatalf("%s was made without approval: %s", call, a.JSON)
				}
			}
			a = next
		}
	})
}

// TestApprovalOfCallThatChanged: if anything that was shown of a call changes, the call is shown again and nothing of it is sent.
func TestApprovalOfCallThatChanged(t *testing.T) {
	t.Parallel()
	const shown = `{"fn":"guarded.put","args":{"k":"1","list":[1,2]},"undo":{"fn":"guarded.set","args":{"k":"u"}}}`
	for name, changed := range map[string]string{
		"an argument":       strings.Replace(shown, `"k":"1"`, `"k":"2"`, 1),
		"order in a list":   strings.Replace(shown, `[1,2]`, `[2,1]`, 1),
		"one more argument": strings.Replace(shown, `[1,2]`, `[1,2],"m":null`, 1),
		"the function":      strings.Replace(shown, `guarded.put`, `guarded.set`, 1),
		"the undo":          strings.Replace(shown, `{"k":"u"}`, `{"k":"v"}`, 1),
		"undo's name":       strings.Replace(shown, `"fn":"guarded.set"`, `"fn":"guarded.put"`, 1),
		"no undo":           `{"fn":"guarded.put","args":{"k":"1","list":[1,2]}}`,
		"the call twice":    `{"fn":"guarded.put","forEach":"1..2","args":{"k":"1","list":[1,2]},"undo":{"fn":"guarded.set","args":{"k":"u"}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newApprovalEngine(t)
			defer g.journal.Close()
			a := gjson.ParseBytes(g.engine.Run(t.Context(), []byte(`{"steps":[`+shown+`]}`), nil).JSON)
			b := g.engine.Run(t.Context(), fmt.Appendf(nil, `{"resume":%q,"approve":%q,"steps":[%s]}`, a.Get("resume").Str, a.Get("approve").Str,
				changed), nil)
			once := name == "the call twice" // the first of the two is the call that was shown
			if b.OK || b.Error.Code != fault.ApprovalRequired || len(g.log) > 0 && !once || len(g.log) > 1 {
				t.Errorf("calls %q, answer %s; want approval_required, and no call but the one that was shown", g.log, b.JSON)
			}
		})
	}
}

// TestApprovalAfterRightsAreRevoked: a caller that may no longer use a function cannot call it by an earlier approval.
func TestApprovalAfterRightsAreRevoked(t *testing.T) {
	t.Parallel()
	g := newApprovalEngine(t)
	defer g.journal.Close()
	a := g.engine.Run(t.Context(), []byte(`{"steps":[{"fn":"guarded.put","args":{"k":"1"}}]}`), nil)
	noFunctions := newRegistry(t, nil)
	for _, request := range []string{fmt.Sprintf(`{"resume":%q,"approve":%q}`, a.Question.Run, gjson.GetBytes(a.JSON, "approve").Str), `{}`} {
		c := &chain.Caller{Functions: noFunctions}
		if request == `{}` {
			c.Decision = &chain.Decision{Run: a.Question.Run, Proof: a.Question.Proof, Yes: true}
		}
		b := g.engine.Run(t.Context(), []byte(request), c)
		if b.OK || len(g.log) > 0 || len(b.Faults) != 1 || b.Faults[0].Code != fault.UnknownFunction {
			t.Errorf("without the function: calls %q, answer %s; want no call, and unknown_function", g.log, b.JSON)
		}
	}
	if b := g.engine.Run(t.Context(), []byte(`{}`), &chain.Caller{Decision: &chain.Decision{Run: a.Question.Run, Proof: a.Question.Proof,
		Yes: true}}); !b.OK || len(g.log) != 1 {
		t.Errorf("with the function: calls %q, answer %s; want one call, and success", g.log, b.JSON)
	}
}

// TestDecisionOnBusyRun: while a request continues a run, or an operator decides about it, all others get busy.
func TestDecisionOnBusyRun(t *testing.T) {
	t.Parallel()
	g := newApprovalEngine(t)
	defer g.journal.Close()
	a := g.engine.Run(t.Context(), []byte(`{"steps":[{"fn":"guarded.put","args":{"k":"1"}}]}`), nil)
	asked := 0
	caller := &chain.Caller{Approve: func(ctx context.Context, _ []chain.ApprovalCall) (bool, error) {
		asked++
		for _, c := range []*chain.Caller{nil, {Decision: &chain.Decision{Run: a.Question.Run, Proof: a.Question.Proof, Yes: true}}} {
			if b := g.engine.Run(ctx, fmt.Appendf(nil, `{"resume":%q}`, a.Question.Run), c); b.OK || b.Error.Code != fault.Busy {
				t.Errorf("second resume: %s, want busy", b.JSON)
			}
		}
		if err := decide(ctx, g.journal, a.Question.Run, true); !journal.IsBusy(err) {
			t.Errorf("Approve: %v, want busy", err)
		}
		return true, nil
	}}
	if b := g.engine.Run(t.Context(), fmt.Appendf(nil, `{"resume":%q}`, a.Question.Run), caller); !b.OK || asked != 1 || len(g.log) != 1 {
		t.Errorf("%d questions, calls %q: %s; want one of each, and success", asked, g.log, b.JSON)
	}
}
