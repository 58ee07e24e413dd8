package chain_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
)

// TestAssumeOfRounds: of the rounds of a step, assume means those of which nobody knows how they ended.
func TestAssumeOfRounds(t *testing.T) {
	t.Parallel()
	n := 0
	s := newScripted(t, nil, func(string, gjson.Result) ([]byte, error) {
		if n++; n == 3 {
			return nil, lost()
		}
		return fmt.Appendf(nil, `{"n":%d}`, n), nil
	})
	run := s.run(fault.Timeout, `{"steps":[
		{"fn":"store.put","args":{"was":"$result?.n"},"repeat":{"until":"$result.n > 4","max":10}}]}`).Get("resume").Str
	s.called(`store.put {"was":null}`, `store.put {"was":1}`, `store.put {"was":2}`)
	s.run(fault.ResumeConflict, `{"resume":%q}`, run)
	s.called()
	s.run("", `{"resume":%q,"assume":{"0":"not_sent"}}`, run)
	s.called(`store.put {"was":2}`, `store.put {"was":4}`)
}

// TestAssumeOfInsertedStep: where calls of two chains share a place, assume means the one of which nobody knows how it ended.
func TestAssumeOfInsertedStep(t *testing.T) {
	t.Parallel()
	s := newScripted(t, nil, failing("fail", refuses))
	run := s.run(fault.FunctionFailed, `{"steps":[{"fn":"store.put","args":{"k":"A"}},
		{"fn":"store.put","args":{"k":"fail"}}]}`).Get("resume").Str
	s.called(`store.put {"k":"A"}`, `store.put {"k":"fail"}`)
	s.ends = failing("B", lost)
	s.run(fault.Timeout, `{"resume":%q,"steps":[{"fn":"store.put","args":{"k":"B"}},{"fn":"store.put","args":{"k":"A"}}]}`, run)
	s.called(`store.put {"k":"B"}`)
	s.ends = nil
	s.run("", `{"resume":%q,"assume":{"0":"not_sent"}}`, run)
	s.called(`store.put {"k":"B"}`)
}

// TestAssumeOfSeveral: several calls at one place can be left, but neither made again nor given one result.
func TestAssumeOfSeveral(t *testing.T) {
	t.Parallel()
	n := 0
	s := newScripted(t, nil, func(function string, _ gjson.Result) ([]byte, error) {
		if function == "store.get" {
			return nil, refuses()
		}
		n++
		return fmt.Appendf(nil, `{"n":%d}`, n), nil
	})
	run := s.run(fault.FunctionFailed, `{"steps":[
		{"fn":"store.put","args":{"was":"$result?.n"},"repeat":{"until":"$result.n > 1","max":3}},{"fn":"store.get"}]}`).Get("resume").Str
	s.called(`store.put {"was":null}`, `store.put {"was":1}`, `store.get {}`)
	const other = `"steps":[{"fn":"store.put","args":{"k":"other"}}]`
	for _, assumed := range []string{`"not_sent"`, `{"result":1}`} {
		a := s.run(fault.BadRequest, `{"resume":%q,"assume":{"0":%s},%s}`, run, assumed, other)
		if at := a.Get("error.at").Str; at != "/assume/0" {
			t.Errorf("%s", a.Raw)
		}
	}
	s.run(fault.ResumeConflict, `{"resume":%q,%s}`, run, other)
	s.called()
	s.run("", `{"resume":%q,"assume":{"0":"applied"},%s}`, run, other)
	s.called(`store.put {"k":"other"}`)
}

// TestOrElseOfUnknown: no value stands in for a call of which nobody knows whether it was done.
func TestOrElseOfUnknown(t *testing.T) {
	t.Parallel()
	s := newScripted(t, nil, failing("1", lost))
	a := s.run(fault.Timeout, `{"steps":[{"fn":"store.put","args":{"k":"1"},"orElse":7},{"fn":"store.put","args":{"k":"2"}}]}`)
	s.called(`store.put {"k":"1"}`)
	if a.Get("writes.0.outcome").Str != "sent_unknown" || a.Get("resume").Str == "" || strings.Contains(a.Raw, `"defaulted"`) {
		t.Errorf("%s", a.Raw)
	}
}

// TestRunsOfOthers: a run of another caller is as one that never was, whatever is asked of it.
func TestRunsOfOthers(t *testing.T) {
	t.Parallel()
	s := newScripted(t, nil, failing("fail", refuses))
	alice := &chain.Caller{ID: "alice"}
	const request = `{"key":"deploy","steps":[{"fn":"store.put","args":{"k":"1"}},{"fn":"store.put","args":{"k":"fail"}}]}`
	run := s.runAs(alice, fault.FunctionFailed, request).Get("resume").Str
	s.called(`store.put {"k":"1"}`, `store.put {"k":"fail"}`)
	for _, who := range []string{"bob", ""} {
		for _, also := range []string{"", `,"dryRun":true`, `,"undo":true`, `,"assume":{"0":"applied"}`} {
			none := s.runAs(&chain.Caller{ID: who}, fault.TokenExpired, `{"resume":"run_none"%s}`, also)
			a := s.runAs(&chain.Caller{ID: who}, fault.TokenExpired, `{"resume":%q%s}`, run, also)
			if got, want := a.Get("error").Raw, none.Get("error").Raw; got != want {
				t.Errorf("%q%s is told %s, and of a run that never was %s", who, also, got, want)
			}
		}
		s.runAs(&chain.Caller{ID: who}, "", `{"key":"deploy","steps":[{"fn":"store.put","args":{"k":"own"}}]}`)
		s.called(`store.put {"k":"own"}`)
		if _, err := s.journal.Read(t.Context(), run, &who); !errors.Is(err, journal.ErrNotFound) {
			t.Errorf("%q reads it: %v", who, err)
		}
	}
	s.ends = nil
	s.runAs(alice, "", `{"resume":%q}`, run)
	s.called(`store.put {"k":"fail"}`)
}

// TestEmptyResume: an empty resume or key, as of an answer or a setting that has none, begins no other run.
func TestEmptyResume(t *testing.T) {
	t.Parallel()
	s := newScripted(t, nil, nil)
	s.run(fault.BadRequest, `{"resume":"","steps":[{"fn":"store.put"}]}`)
	s.run(fault.BadRequest, `{"resume":7,"steps":[{"fn":"store.put"}]}`)
	s.called()
	s.run(fault.Compile, `{"key":"","steps":[{"fn":"store.put"}]}`)
	s.called()
	s.run("", `{"resume":null,"key":null,"steps":[{"fn":"store.put"}]}`)
	s.called(`store.put {}`)
}

// TestOrElseOfWrite: a write that failed, for which orElse stood in, is made again only if nothing was written after it.
func TestOrElseOfWrite(t *testing.T) {
	t.Parallel()
	for _, after := range []string{"store.put", "store.get"} {
		s := newScripted(t, nil, func(function string, args gjson.Result) ([]byte, error) {
			if k := args.Get("k").Str; k == "1" || k == "3" {
				return nil, refuses()
			}
			return []byte(`{}`), nil
		})
		run := s.run(fault.FunctionFailed, `{"steps":[{"fn":"store.put","args":{"k":"1"},"orElse":7},{"fn":%q,"args":{"k":"2","v":"$0"}},
			{"fn":"store.put","args":{"k":"3"}}],"return":"$0"}`, after).Get("resume").Str
		s.called(`store.put {"k":"1"}`, after+` {"k":"2","v":7}`, `store.put {"k":"3"}`)
		s.ends = func(string, gjson.Result) ([]byte, error) { return []byte(`8`), nil }
		a := s.run("", `{"resume":%q,"lite":true}`, run)
		if after == "store.put" {
			s.called(`store.put {"k":"3"}`)
		} else {
			s.called(`store.put {"k":"1"}`, after+` {"k":"2","v":8}`, `store.put {"k":"3"}`)
		}
		if want := map[string]string{"store.put": "7", "store.get": "8"}[after]; a.Raw != want {
			t.Errorf("after %s: %s, want %s", after, a.Raw, want)
		}
	}
}

// TestOrElseOfConflict: no value stands in for a conflict, of a step, of an element or within an inline chain.
func TestOrElseOfConflict(t *testing.T) {
	t.Parallel()
	for _, step := range []string{
		`{"fn":"store.put","args":{"k":"B"},"orElse":7}`,
		`{"fn":"store.put","args":{"k":"$item"},"forEach":"['B']","orElse":7}`,
		`{"chain":{"steps":[{"fn":"store.put","args":{"k":"B"}}]},"orElse":7}`,
	} {
		s := newScripted(t, nil, failing("fail", refuses))
		run := s.run(fault.FunctionFailed, `{"steps":[{"fn":"store.put","args":{"k":"A"}},{"fn":"store.put","args":{"k":"fail"}}]}`).Get("resume").Str
		s.called(`store.put {"k":"A"}`, `store.put {"k":"fail"}`)
		a := s.run(fault.ResumeConflict, `{"resume":%q,"steps":[%s]}`, run, step)
		s.called()
		if !a.Get(`writes.#(outcome=="not_sent")`).Exists() {
			t.Errorf("%s", a.Raw)
		}
	}
}

// TestConflictNamesWhereTheRunDidIt: writes of a conflict name each call that needs an assumption by its place in the run, which assume
// takes as it stands there.
func TestConflictNamesWhereTheRunDidIt(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		ends         func() error
		mended, want string
	}{
		"moved, and nobody knows": {lost, `[{"fn":"store.get"},{"fn":"store.put","args":{"k":"2"}}]`, "sent_unknown"},
		"another":                 {refuses, `[{"fn":"store.put","args":{"k":"3"}}]`, "applied"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScripted(t, nil, failing("2", test.ends))
			steps := `[{"fn":"store.put","args":{"k":"1"}},{"fn":"store.put","args":{"k":"2"}}]`
			if test.want == "sent_unknown" {
				steps = `[{"fn":"store.put","args":{"k":"2"}}]`
			}
			failed := s.engine.Run(t.Context(), []byte(`{"steps":`+steps+`}`), nil)
			run := gjson.GetBytes(failed.JSON, "resume").Str
			conflict := s.run(fault.ResumeConflict, `{"resume":%q,"steps":%s}`, run, test.mended)
			var at []string
			for _, w := range conflict.Get("writes").Array() {
				if position := w.Get("at"); position.Exists() && w.Get("fn").Str == "store.put" && w.Get("outcome").Str == test.want &&
					!w.Get("step").Exists() {
					at = append(at, position.Str)
				}
			}
			if len(at) != 1 || at[0] != "0" {
				t.Fatalf("%q: %s", at, conflict.Raw)
			}
			s.run("", `{"resume":%q,"assume":{%q:"applied"}}`, run, at[0])
		})
	}
}
