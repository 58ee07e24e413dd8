package chain_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// scriptedEngine is an engine with a journal. The test decides how the calls of its store end.
type scriptedEngine struct {
	t       *testing.T
	engine  *chain.Engine
	all     *steps.Registry
	journal *journal.Journal
	ends    func(function string, args gjson.Result) ([]byte, error) // changed only between runs

	mu  sync.Mutex
	log []string // calls that reached the store
}

// newScriptedEngine returns a scriptedEngine. A nil driver means one in memory; if ends is nil, each call succeeds.
func newScriptedEngine(t *testing.T, d journal.Driver, ends func(function string, args gjson.Result) ([]byte, error)) *scriptedEngine {
	t.Helper()
	s := &scriptedEngine{t: t, ends: ends}
	var functions []steps.Function
	for _, spec := range []steps.Spec{
		{Name: "store.get", Effect: steps.Read},
		{Name: "store.put", EffectDeclared: true},
		{Name: "store.set", EffectDeclared: true, Idempotent: true},
		{Name: "store.remove", EffectDeclared: true, Effect: steps.Destroy},
		{Name: "guarded.put", EffectDeclared: true, Approve: steps.ApproveWrite},
		{Name: "taken.put", EffectDeclared: true, Undo: &steps.Undo{Function: "guarded.set", Args: []byte(`{"id":"$result.id"}`)}},
		{Name: "guarded.set", EffectDeclared: true, Idempotent: true, Approve: steps.ApproveWrite},
	} {
		functions = append(functions, steps.Function{Spec: spec, Call: s.call(spec.Name)})
	}
	s.all, s.journal = newRegistry(t, functions), newJournal(t, d)
	s.engine = engineOn(t, s.all, chain.Options{Journal: s.journal}, false)
	return s
}

func (s *scriptedEngine) call(function string) steps.Call {
	return func(_ context.Context, args []byte) ([]byte, error) {
		s.mu.Lock()
		s.log = append(s.log, function+" "+string(args))
		s.mu.Unlock()
		if s.ends != nil {
			return s.ends(function, gjson.ParseBytes(args))
		}
		return []byte(`{"id":"x"}`), nil
	}
}

// failing returns an ends that fails the calls with this argument k; all others succeed.
func failing(k string, err func() error) func(string, gjson.Result) ([]byte, error) {
	return func(_ string, args gjson.Result) ([]byte, error) {
		if args.Get("k").Str == k {
			return nil, err()
		}
		return []byte(`{"id":"x"}`), nil
	}
}

// refuses returns the error of a refused call; lost that of a call whose outcome is not known.
func refuses() error {
	return &fault.Error{Code: fault.FunctionFailed, Status: 422, Message: "the store says no"}
}

func lost() error { return fault.New(fault.Timeout, "the line is dead") }

// run sends a request of the local user, which must fail with the code; "": it must succeed.
func (s *scriptedEngine) run(code fault.Code, request string, args ...any) gjson.Result {
	s.t.Helper()
	return s.runAs(nil, code, request, args...)
}

func (s *scriptedEngine) runAs(caller *chain.Caller, code fault.Code, request string, args ...any) gjson.Result {
	s.t.Helper()
	sent := fmt.Sprintf(request, args...)
	a := s.engine.Run(s.t.Context(), []byte(sent), caller)
	if got := gjson.GetBytes(a.JSON, "error.code").Str; got != string(code) || a.OK != (code == "") {
		s.t.Fatalf("%s\ngot code %q, want %q: %s", sent, got, code, a.JSON)
	}
	return gjson.ParseBytes(a.JSON)
}

// wantCalls checks which calls reached the store since the last check.
func (s *scriptedEngine) wantCalls(want ...string) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Equal(s.log, want) {
		s.t.Errorf("calls\n%q, want\n%q", s.log, want)
	}
	s.log = nil
}

// wantRun checks how a run and its calls ended in the journal.
func (s *scriptedEngine) wantRun(run string, status journal.Status, want ...string) {
	s.t.Helper()
	past, err := s.journal.Read(s.t.Context(), run, nil)
	must(s.t, err)
	var calls []string
	for _, c := range past.Calls() {
		calls = append(calls, fmt.Sprint(c.StepPath, " ", c.Function, " ", c.Outcome))
	}
	if past.Row.Status != status || !slices.Equal(calls, want) {
		s.t.Errorf("the run is %s with calls\n%q, want %s with\n%q", past.Row.Status, calls, status, want)
	}
}

// flaky is a driver whose writes fail when the test says so.
type flaky struct {
	journal.Driver
	fails func(list []journal.Write) bool
	mu    sync.Mutex
}

func (f *flaky) Write(ctx context.Context, list []journal.Write) ([]bool, error) {
	f.mu.Lock()
	fails := f.fails(list)
	f.mu.Unlock()
	if fails {
		return nil, errors.New("the database is locked")
	}
	return f.Driver.Write(ctx, list)
}

// firstEnd fails the first write that ends a run.
func firstEnd() func(list []journal.Write) bool {
	failed := false
	return func(list []journal.Write) bool {
		if !failed && slices.ContainsFunc(list, func(w journal.Write) bool { return w.Release && w.Row != nil }) {
			failed = true
			return true
		}
		return false
	}
}
