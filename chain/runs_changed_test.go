package chain_test

import (
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
)

// TestMendedSelect: a write that was applied, and whose select failed, is not made again when the select is mended.
func TestMendedSelect(t *testing.T) {
	t.Parallel()
	s := newScripted(t, nil, nil)
	a := s.run(fault.ReferenceMissing, `{"steps":[{"fn":"store.put","args":{"k":"a"},"select":"$result.none"}]}`)
	reportedWrites(t, a, "0 applied; ")
	s.called(`store.put {"k":"a"}`)
	a = s.run("", `{"resume":%q,"replace":{"0":{"fn":"store.put","args":{"k":"a"},"select":"$result.id"}}}`, a.Get("resume").Str)
	s.called()
	if a.Get("result").Str != "x" {
		t.Errorf("%s", a.Raw)
	}
}

// TestEqualElements: of calls that are equal as many are made as the chain is short of.
func TestEqualElements(t *testing.T) {
	t.Parallel()
	s := newScripted(t, nil, failing("fail", refuses))
	run := s.run(fault.FunctionFailed, `{"steps":[{"fn":"store.put","forEach":"['a','a']","args":{"k":"$item"}},
		{"fn":"store.put","args":{"k":"fail"}}]}`).Get("resume").Str
	s.called(`store.put {"k":"a"}`, `store.put {"k":"a"}`, `store.put {"k":"fail"}`)
	s.run(fault.ResumeConflict, `{"resume":%q,"steps":[{"fn":"store.put","args":{"k":"a"}},{"fn":"store.put","args":{"k":"b"}}]}`, run)
	s.called()
	s.run("", `{"resume":%q,"steps":[{"fn":"store.put","forEach":"['a','b','a','a']","args":{"k":"$item"}}]}`, run)
	s.called(`store.put {"k":"b"}`, `store.put {"k":"a"}`)
}

// TestResumedTwiceAtOnce: of two that resume a run at once, one goes on with it; the other is told to wait.
func TestResumedTwiceAtOnce(t *testing.T) {
	t.Parallel()
	s := newScripted(t, nil, failing("b", refuses))
	run := s.run(fault.FunctionFailed, `{"steps":[{"fn":"store.put","args":{"k":"a"}},{"fn":"store.put","args":{"k":"b"}}]}`).Get("resume").Str
	began, goOn := make(chan bool), make(chan bool)
	s.ends = func(string, gjson.Result) ([]byte, error) {
		close(began)
		<-goOn
		return []byte(`{"id":"x"}`), nil
	}
	first := make(chan *chain.Answer)
	go func() { first <- s.engine.Run(t.Context(), []byte(`{"resume":"`+run+`"}`), nil) }()
	<-began
	s.run(fault.Busy, `{"resume":%q}`, run)
	s.run(fault.Busy, `{"resume":%q,"undo":true}`, run)
	close(goOn)
	if a := <-first; !a.OK {
		t.Errorf("%s", a.JSON)
	}
	s.called(`store.put {"k":"a"}`, `store.put {"k":"b"}`, `store.put {"k":"b"}`)
}
