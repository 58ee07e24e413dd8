package chain_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// TestLeanSize: a write of 60 objects is answered in at most 48 tokens, while the whole answer costs a hundred times as much. The minimum
// budget has room for the most expensive lean form.
func TestLeanSize(t *testing.T) {
	t.Parallel()
	counter := newCounter(t, 0)
	e := engineOf(t, writingFunctions(), chain.Options{Lite: true}, true)
	for _, made := range []string{objects(60), `{"status":201,"headers":{},"body":` + objects(60) + `}`} {
		answer := e.Run(context.Background(), []byte(`{"steps":[`+stepOf("do.write", made, "")+`]}`), nil)
		cost := counter.Count(answer.JSON, -1)
		t.Logf("%d tokens of %d: %s", cost, counter.Count([]byte(made), -1), answer.JSON)
		if cost > 48 || gjson.GetBytes(answer.JSON, "accepted").Int() != 60 {
			t.Errorf("%d tokens, want at most 48, and 60 accepted: %s", cost, answer.JSON)
		}
	}
	answer := e.Run(context.Background(), []byte(`{"lite":false,"budget":{"maxTotalTokens":150},"steps":[`+stepOf("do.write",
		wide(`"id":1,"name":"`+strings.Repeat("é𓀀", 30)+`"`), "")+`]}`), nil)
	if cost := counter.Count(answer.JSON, -1); !answer.OK || cost > 150 || gjson.GetBytes(answer.JSON, "result.id").Int() != 1 {
		t.Errorf("%d tokens, want at most 150, and the id 1: %s", cost, answer.JSON)
	}
}

// TestLeanBounds: the size at which the lean form begins, that it can be off, and that no result is lost without a store.
func TestLeanBounds(t *testing.T) {
	t.Parallel()
	counter := newCounter(t, 0)
	made := wide(`"id":7`)
	size := counter.Count([]byte(made), -1)
	run := func(o chain.Options, keeps bool) bool {
		o.Lite = true
		e := engineOf(t, writingFunctions(), o, keeps)
		answer := e.Run(t.Context(), []byte(`{"steps":[`+stepOf("do.write", made, "")+`]}`), nil)
		return answer.OK && string(answer.JSON) == made
	}
	for name, test := range map[string]struct {
		above int
		keeps bool
		whole bool
	}{
		"default": {0, true, false}, "at the bound": {size, true, true}, "above it": {size - 1, true, false},
		"off": {-1, true, true}, "without a store": {0, false, true},
	} {
		if run(chain.Options{LeanAbove: test.above}, test.keeps) != test.whole {
			t.Errorf("%s: the whole result was answered: %t, want %t", name, !test.whole, test.whole)
		}
	}
	registry := registryOf(t, &world{})
	_, err := chain.New(&chain.Options{Functions: registry, LeanAbove: -2})
	if f, ok := fault.As(err); !ok || f.Code != fault.BadRequest {
		t.Errorf("New with LeanAbove -2: %v, want bad_request", err)
	}
}

// TestLeanDeletes: a function deletes if its name says so, in any style of names.
func TestLeanDeletes(t *testing.T) {
	t.Parallel()
	for name, deletes := range map[string]bool{
		"s.delete_entities": true, "s.deleteRepo": true, "s.repo-delete": true, "s.bulk.Remove": true, "s.file.destroy": true,
		"s.SQLDelete":  true,
		"s.purgeCache": true, "s.drop_table": true, "s.clear": true, "drop": true, "s.item2delete": false, "s.device.delete": true,
		"s.edit_file": false, "s.start_process": false, "s.undelete": false, "s.restore_deleted": false, "s.delete.undo": false,
		"delete.put":           false,
		"browser.browser_drop": false, "s.eyedropper": false, "s.isClear": false,
	} {
		e := engineOf(t, []steps.Function{answering(steps.Spec{Name: name, Effect: steps.Destroy, EffectDeclared: true})}, chain.Options{}, true)
		args, _ := json.Marshal(map[string]string{"answer": wide(`"id":7`)})
		lite := true
		answer := e.Call(context.Background(), &chain.Call{Function: name, Args: args, Lite: &lite}, nil)
		if got := gjson.GetBytes(answer.JSON, "deleted"); !answer.OK || got.Exists() != deletes {
			t.Errorf("%s: deleted exists %t, want %t: %.200s", name, got.Exists(), deletes, answer.JSON)
		}
	}
	// A function that is declared as a write, by itself or by the configuration, does not delete, whatever its name.
	e := engineOf(t, []steps.Function{answering(steps.Spec{Name: "s.delete", EffectDeclared: true, Deletes: true})},
		chain.Options{Lite: true}, true)
	answer := e.Run(t.Context(), []byte(`{"steps":[`+stepOf("s.delete", wide(`"id":7`), "")+`]}`), nil)
	if gjson.GetBytes(answer.JSON, "deleted").Exists() || gjson.GetBytes(answer.JSON, "id").Int() != 7 {
		t.Errorf("the write s.delete: %.200s, want its id and nothing deleted", answer.JSON)
	}
}
