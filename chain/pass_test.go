package chain_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// TestPass: a passed call is recorded as a run of one step, unless it is safe to repeat.
func TestPass(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		function string
		ends     func(string, gjson.Result) ([]byte, error) // answers the call; nil: it succeeds
		status   journal.Status                             // "": the call is not recorded
		want     string
	}{
		{"store.put", nil, journal.OK, "0 store.put applied"},
		{"store.put", func(string, gjson.Result) ([]byte, error) { return nil, refuses() }, journal.Failed, "0 store.put failed"},
		{"store.put", func(string, gjson.Result) ([]byte, error) { return nil, lost() }, journal.Failed, "0 store.put sent_unknown"},
		{"store.remove", nil, journal.OK, "0 store.remove applied"},
		{"store.get", nil, "", ""},
		{"store.set", nil, "", ""},
	} {
		s := newScriptedEngine(t, nil, test.ends)
		entry, err := s.all.Resolve(test.function)
		must(t, err)
		engine := s.inScope("folder").engine
		passed := engine.Pass(t.Context(), entry, []byte(`{"k":"$0"}`), "alice")
		value, err := passed.Result, passed.Err
		s.wantCalls(test.function + ` {"k":"$0"}`)
		if (err == nil) != (test.ends == nil) || err == nil && string(value) != `{"id":"x"}` {
			t.Errorf("%s: got %s and error %v, want an error %t", test.function, value, err, test.ends != nil)
		}
		rows, listErr := s.journal.List(t.Context(), &journal.Filter{})
		wantRows := 1
		if test.status == "" {
			wantRows = 0
		}
		switch {
		case listErr != nil || len(rows) != wantRows:
			t.Errorf("%s: got runs %+v and error %v, want %d runs", test.function, rows, listErr, wantRows)
		case wantRows == 1:
			if rows[0].Caller != "alice" || rows[0].Calls != 1 || rows[0].Writes != 1 {
				t.Errorf("%s: recorded run %+v, want one call and one write of alice", test.function, rows[0])
			}
			if past, err := s.journal.Read(t.Context(), rows[0].ID, nil); err != nil || past.Row.Scope != "folder" {
				t.Errorf("%s: recorded run %+v, error %v, want the engine's scope, folder", test.function, past, err)
			}
			s.wantRun(rows[0].ID, test.status, test.want)
		}
	}
}

// TestUndoOfPassed: a passed call is undone as a chain with that call is, by what its function names.
func TestUndoOfPassed(t *testing.T) {
	t.Parallel()
	s := newScriptedEngine(t, nil, nil)
	entry, err := s.all.Resolve("taken.put")
	must(t, err)
	passed := s.engine.Pass(t.Context(), entry, []byte(`{"k":"a"}`), "")
	must(t, passed.Err)
	rows, err := s.journal.List(t.Context(), &journal.Filter{})
	must(t, err)
	if got := s.run("", `{"resume":%q,"undo":true}`, rows[0].ID); got.Get("result").Raw != `{"undone":1,"left":[]}` {
		t.Errorf("the undo of a passed call answers %s", got.Raw)
	}
	s.wantCalls(`taken.put {"k":"a"}`, `guarded.set {"id":"x"}`)
}

// TestPassWithCredential: what a passed call has written with the credential of its request is repeated and undone with that one only.
func TestPassWithCredential(t *testing.T) {
	t.Parallel()
	j, err := journal.New(&journal.Memory{}, &journal.Options{Key: make([]byte, 32)})
	must(t, err)
	t.Cleanup(func() { j.Close() })
	sent := 0
	put := func(context.Context, []byte) ([]byte, error) {
		sent++
		return nil, refuses()
	}
	const own, another = "stock=a", "stock=b"
	registry := newRegistry(t, []steps.Function{{Spec: steps.Spec{Name: "stock.put", EffectDeclared: true, Credential: own}, Call: put}})
	engine := engineOn(t, registry, chain.Options{Journal: j}, false)
	caller := func(credentials string) *chain.Caller {
		return &chain.Caller{ID: "ann", Rights: budget.Rights{Credentials: credentials}}
	}
	entry, err := registry.Resolve("stock.put")
	must(t, err)
	passed := engine.Pass(t.Context(), entry, []byte(`{}`), "ann")
	run := gjson.GetBytes(engine.AnswerFailure(t.Context(), &passed, caller(own)).JSON, "resume").Str
	if run == "" {
		t.Fatal("the failed call has no run")
	}
	before := sent
	for _, credentials := range []string{another, ""} {
		for _, request := range []string{`{"resume":%q}`, `{"resume":%q,"undo":true}`} {
			if a := engine.Run(t.Context(), fmt.Appendf(nil, request, run), caller(credentials)); codeOf(a) != fault.Denied || sent != before {
				t.Errorf("%s with %q: %s after %d more calls, want denied", request, credentials, a.JSON, sent-before)
			}
		}
	}
	if a := engine.Run(t.Context(), fmt.Appendf(nil, `{"resume":%q}`, run), caller(own)); sent == before {
		t.Errorf("a resume with the same credential sends nothing: %s", a.JSON)
	}
}

// TestPassWithoutJournal: a call that cannot be recorded is not sent, unless it is safe to repeat.
func TestPassWithoutJournal(t *testing.T) {
	t.Parallel()
	s := newScriptedEngine(t, unwritable{&journal.Memory{}}, nil)
	for function, code := range map[string]fault.Code{"store.put": fault.Unavailable, "store.get": ""} {
		entry, err := s.all.Resolve(function)
		must(t, err)
		err = s.engine.Pass(t.Context(), entry, []byte(`{}`), "").Err
		if fault.CodeOf(err) != code || err != nil && fault.OutcomeOf(err) != fault.NotSent {
			t.Errorf("%s: got %v (%s), want code %q, and not_sent for an error", function, err, fault.OutcomeOf(err), code)
		}
	}
	s.wantCalls(`store.get {}`)
}

// unwritable is a driver whose writes fail.
type unwritable struct{ *journal.Memory }

func (unwritable) Write(context.Context, []journal.Write) ([]bool, error) {
	return nil, errors.New("the disk is full")
}

// TestAnswerFailure: the failure of a passed call is answered as Call answers it: with the same outcome, writes and resume, and retryable
// only if nothing was sent that is not safe to repeat.
func TestAnswerFailure(t *testing.T) {
	t.Parallel()
	unsent := func() error { return fault.MarkUnsent(fault.New(fault.Unavailable, "the line is dead")) }
	broken := func() error {
		return &fault.Error{Code: fault.FunctionFailed, Status: 503, Message: "the store is down"}
	}
	for _, test := range []struct {
		function  string
		fails     func() error
		retryable bool
		outcome   fault.Outcome
	}{
		{"store.put", lost, false, fault.SentUnknown},
		{"store.put", broken, false, fault.SentUnknown},
		{"store.put", refuses, false, fault.Failed},
		{"store.put", unsent, true, fault.NotSent},
		{"store.remove", lost, false, fault.SentUnknown},
		{"store.set", lost, true, fault.SentUnknown},
		{"store.get", lost, true, ""},
		{"store.get", broken, true, ""},
	} {
		s := newScriptedEngine(t, nil, func(string, gjson.Result) ([]byte, error) { return nil, test.fails() })
		entry, err := s.all.Resolve(test.function)
		must(t, err)
		caller := &chain.Caller{ID: "alice"}
		passed := s.engine.Pass(t.Context(), entry, []byte(`{"k":"a"}`), caller.ID)
		got := s.engine.AnswerFailure(t.Context(), &passed, caller)
		want := s.engine.Call(t.Context(), &chain.Call{Function: test.function, Args: []byte(`{"k":"a"}`)}, caller)
		if comparable := withoutRun(t, got.JSON); comparable != withoutRun(t, want.JSON) {
			t.Errorf("%s: got %s, want the answer of a call, %s", test.function, got.JSON, want.JSON)
		}
		answer := gjson.ParseBytes(got.JSON)
		unsafe := test.function == "store.put" || test.function == "store.remove"
		if answer.Get("error.retryable").Bool() != test.retryable || answer.Get("resume").Exists() != unsafe ||
			answer.Get("writes.0.outcome").Str != string(test.outcome) {
			t.Errorf("%s: got %s, want retryable %t, a resume %t, and a write %s", test.function, answer.Raw, test.retryable, unsafe, test.outcome)
		}
		if run := answer.Get("resume").Str; unsafe && test.outcome != fault.NotSent {
			s.wantRun(run, journal.Failed, "0 "+test.function+" "+string(test.outcome))
		}
	}
}

// withoutRun returns an answer without what differs in each run.
func withoutRun(t *testing.T, answer []byte) string {
	t.Helper()
	var all map[string]json.RawMessage
	must(t, json.Unmarshal(answer, &all))
	all["usage"] = json.RawMessage(gjson.GetBytes(answer, "usage.calls").Raw)
	delete(all, "resume")
	delete(all, "run")
	text, err := json.Marshal(all)
	must(t, err)
	return string(text)
}

// TestAnswerRefusal: arguments that are refused are told with the schema, and nothing is recorded.
func TestAnswerRefusal(t *testing.T) {
	t.Parallel()
	s := newScriptedEngine(t, nil, nil)
	entry, err := s.all.Resolve("store.put")
	must(t, err)
	passed := s.engine.Pass(t.Context(), entry, []byte(`[]`), "")
	answer := gjson.ParseBytes(s.engine.AnswerFailure(t.Context(), &passed, nil).JSON)
	if answer.Get("error.code").Str != string(fault.BadArguments) || answer.Get("writes").Exists() || answer.Get("resume").Exists() {
		t.Errorf("got %s, want bad_arguments without writes and resume", answer.Raw)
	}
	s.wantCalls()
}
