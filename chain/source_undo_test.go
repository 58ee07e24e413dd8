package chain_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// notebook has functions that write, and that tell themselves how to take a write back.
type notebook struct{ calls []string }

func (n *notebook) functions() []steps.Function {
	write := func(name string) steps.Function {
		return steps.Function{Spec: steps.Spec{Name: name, EffectDeclared: true}, Call: func(ctx context.Context, args []byte) ([]byte, error) {
			n.calls = append(n.calls, name+" "+string(args))
			if err := steps.ReportUndo(ctx, &steps.Undo{Function: "note.erase", Args: []byte(`{"was":"$0 of it"}`)}); err != nil {
				return nil, err
			}
			if gjson.GetBytes(args, "fail").Bool() {
				return nil, fault.New(fault.FunctionFailed, "the page is torn")
			}
			return []byte(`{}`), nil
		}}
	}
	own := write("note.own")
	own.Undo = &steps.Undo{Function: "note.erase", Args: []byte(`{"by":"the configuration"}`)}
	return []steps.Function{write("note.add"), own, write("note.erase")}
}

// TestUndoOfTheSource: a call is taken back as its source has told, word for word, unless the step or the configuration says otherwise. What a
// failed call has told is dropped, and an undo has no undo.
func TestUndoOfTheSource(t *testing.T) {
	t.Parallel()
	for request, undo := range map[string]string{
		`{"fn":"note.add"}`: `{"was":"$0 of it"}`,
		`{"fn":"note.add","undo":{"fn":"note.erase","args":{"by":"the step"}}}`: `{"by":"the step"}`,
		`{"fn":"note.own"}`:                      `{"by":"the configuration"}`,
		`{"fn":"note.add","args":{"fail":true}}`: "",
	} {
		n := &notebook{}
		engine := engineOf(t, n.functions(), chain.Options{Journal: newJournal(t, nil)}, false)
		a := engine.Run(t.Context(), []byte(`{"onError":"undo","steps":[`+request+`,{"fn":"note.add","args":{"fail":true}}]}`), nil)
		undone := slices.DeleteFunc(slices.Clone(n.calls), func(call string) bool { return !strings.HasPrefix(call, "note.erase") })
		if want := "note.erase " + undo; undo == "" && len(undone) > 0 || undo != "" && !slices.Equal(undone, []string{want}) {
			t.Errorf("%s: got the undos %q, want %q: %s", request, undone, undo, a.JSON)
		}
	}
}

// TestUndoOfTheSourceIsBounded: what undos keep counts against the limit of the chain. A call that would exceed it fails before it changes
// anything.
func TestUndoOfTheSourceIsBounded(t *testing.T) {
	t.Parallel()
	n := &notebook{}
	engine := engineOf(t, n.functions(), chain.Options{MaxChainBytes: 100}, false)
	a := engine.Run(t.Context(), []byte(`{"onError":"undo","steps":[{"fn":"note.add","forEach":"1..20"}]}`), nil)
	var added, erased int
	for _, call := range n.calls {
		if strings.HasPrefix(call, "note.add") {
			added++
		} else {
			erased++
		}
	}
	if codeOf(a) != fault.LimitExceeded || added < 3 || added > 6 || erased != added-1 {
		t.Errorf("got %d calls and %d undos, want one undo less, and limit_exceeded: %s", added, erased, a.JSON)
	}
}

// TestPassedUndoOfTheSource: a call that is passed on unchanged is undone as its source has told, too.
func TestPassedUndoOfTheSource(t *testing.T) {
	t.Parallel()
	n := &notebook{}
	journals := newJournal(t, nil)
	registry := newRegistry(t, n.functions())
	engine := engineOn(t, registry, chain.Options{Journal: journals}, false)
	entry, err := registry.Resolve("note.add")
	must(t, err)
	passed := engine.Pass(t.Context(), entry, []byte(`{}`), "")
	must(t, passed.Err)
	rows, err := journals.List(t.Context(), &journal.Filter{})
	must(t, err)
	a := engine.Run(t.Context(), []byte(`{"resume":"`+rows[0].ID+`","undo":true}`), nil)
	if want := []string{"note.add {}", `note.erase {"was":"$0 of it"}`}; !a.OK || !slices.Equal(n.calls, want) {
		t.Errorf("got the calls %q, want %q: %s", n.calls, want, a.JSON)
	}
}
