package chain_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/history"
)

// inScope returns an engine of another scope over the same functions and the same journal.
func (s *scriptedEngine) inScope(scope string) *scriptedEngine {
	s.t.Helper()
	engine := engineOn(s.t, s.all, chain.Options{Journal: s.journal, Scope: scope}, false)
	return &scriptedEngine{t: s.t, engine: engine, all: s.all, journal: s.journal}
}

// TestScopes: a run of another scope cannot be resumed, undone, inspected or decided. Its caller is told that there is no such run, and an
// operator where it is. It can still be continued in its own scope.
func TestScopes(t *testing.T) {
	t.Parallel()
	operator := &chain.Caller{Override: chain.Override{Operator: true}}
	const request = `{"steps":[{"fn":"store.put","args":{"k":"1"},"undo":{"fn":"store.remove","args":{"id":"$result.id"}}},{"fn":"guarded.put"}]}`
	for _, test := range []struct{ scope, other, want string }{
		{"/staging", "/prod", "add --config /staging"},
		{"/staging", "", "add --config /staging"},
		{"", "/prod", "made without a configuration file"},
	} {
		t.Run(fmt.Sprintf("%q and %q", test.scope, test.other), func(t *testing.T) {
			t.Parallel()
			s := newScriptedEngine(t, nil, nil)
			sameScope, other := s.inScope(test.scope), s.inScope(test.other)
			first := sameScope.engine.Run(t.Context(), []byte(request), nil)
			if first.Question == nil {
				t.Fatalf("got no question: %s", first.JSON)
			}
			s.wantCalls(`store.put {"k":"1"}`)
			run := first.Question.Run
			unknown := other.run(fault.TokenExpired, `{"resume":%q}`, strings.Repeat("a", len(run))).Get("error.message").Str
			for _, more := range []string{``, `,"undo":true`, `,"dryRun":true`, `,"approve":"oca_x"`, `,"steps":[{"fn":"store.put"}]`} {
				if a := other.run(fault.TokenExpired, `{"resume":%q%s}`, run, more); a.Get("error.message").Str != unknown {
					t.Errorf("resume with %q from another scope: %s, want %q", more, a.Raw, unknown)
				}
				if a := other.runAs(operator, fault.BadRequest, `{"resume":%q%s}`, run, more); !strings.Contains(a.Get("error.message").Str,
					test.want) {
					t.Errorf("resume with %q by an operator: %s, want %q", more, a.Raw, test.want)
				}
			}
			other.runAs(&chain.Caller{Decision: &chain.Decision{Run: run, Proof: first.Question.Proof, Yes: true}}, fault.TokenExpired, `%s`,
				request)
			s.wantCalls()
			s.wantRun(run, journal.Waiting, "0 store.put applied")
			sameScope.runAs(&chain.Caller{Decision: &chain.Decision{Run: run, Proof: first.Question.Proof, Yes: true}}, "", `%s`, request)
			s.wantCalls(`guarded.put {}`)
			sameScope.runAs(operator, fault.NotSupported, `{"resume":%q,"undo":true}`, run)
			s.wantCalls(`store.remove {"id":"x"}`)
		})
	}
}

// TestScopeOfApproval: an operator can approve a run of any scope, since that sends nothing. The run continues in its own scope.
func TestScopeOfApproval(t *testing.T) {
	t.Parallel()
	s := newScriptedEngine(t, nil, nil)
	sameScope := s.inScope("/staging")
	run := sameScope.run(fault.ApprovalRequired, `{"steps":[{"fn":"guarded.put"}]}`).Get("resume").Str
	if err := decide(t.Context(), s.journal, run, true); err != nil {
		t.Fatal(err)
	}
	s.inScope("/prod").run(fault.TokenExpired, `{"resume":%q}`, run)
	s.wantCalls()
	sameScope.run("", `{"resume":%q}`, run)
	s.wantCalls(`guarded.put {}`)
}

// TestKeysOfScopes: a key of any text means a different run in each scope, and is shown as it was sent.
func TestKeysOfScopes(t *testing.T) {
	t.Parallel()
	s := newScriptedEngine(t, nil, nil)
	staging, prod, none := s.inScope("/staging"), s.inScope("/prod"), s.inScope("")
	put := func(in *scriptedEngine, key, status string) {
		t.Helper()
		if a := in.run("", `{"key":%s,"steps":[{"fn":"store.put"}]}`, quoted(key)); a.Get("steps.0.status").Str != status {
			t.Errorf("key %q: want a step that is %s: %s", key, status, a.Raw)
		}
	}
	all := []*scriptedEngine{staging, prod, none}
	for _, in := range all {
		put(in, "seed", "ok")
	}
	s.wantCalls(`store.put {}`, `store.put {}`, `store.put {}`)
	rows, err := s.journal.List(t.Context(), &journal.Filter{})
	must(t, err)
	for i := range rows { // the stored keys of other scopes are ordinary keys here
		if rows[i].Key != "seed" {
			put(none, rows[i].Key, "ok")
		}
	}
	s.wantCalls(`store.put {}`, `store.put {}`)
	for _, in := range all {
		put(in, "seed", "reused")
	}
	s.wantCalls()
	runs, err := history.Runs(t.Context(), s.journal, &journal.Filter{})
	must(t, err)
	shown := map[int]int{} // number of runs, by the number of scope marks in their shown keys
	for i := range runs {
		shown[strings.Count(runs[i].Key, "\x1f")]++
	}
	if shown[0] != 3 || shown[1] != 2 {
		t.Errorf("number of keys by scope marks: %v, want 3 with none and 2 with one", shown)
	}
}
