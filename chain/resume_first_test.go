package chain_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

func TestResumeFirst(t *testing.T) {
	puts := []string{}
	broken := true
	put := steps.Function{Spec: steps.Spec{Name: "store.put", Effect: steps.Write, EffectDeclared: true}, Call: func(_ context.Context, args []byte) ([]byte, error) {
		if broken && strings.Contains(string(args), `"c"`) {
			return nil, fault.New(fault.FunctionFailed, "no c today")
		}
		puts = append(puts, string(args))
		return fmt.Appendf(nil, `{"id":%d}`, len(puts)), nil
	}}
	get := steps.Function{Spec: steps.Spec{Name: "store.get", Effect: steps.Read}, Call: func(_ context.Context, args []byte) ([]byte, error) {
		return []byte(`{"items":["a","b","c"]}`), nil
	}}
	reg, err := steps.NewRegistry([]steps.Function{put, get}, nil)
	if err != nil {
		t.Fatal(err)
	}
	j, err := journal.New(&journal.Memory{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	e, err := chain.New(&chain.Options{Functions: reg, Journal: j})
	if err != nil {
		t.Fatal(err)
	}
	a := e.Run(t.Context(), []byte(`{"steps":[{"fn":"store.get"},{"fn":"store.put","forEach":"$0.items","args":{"k":"$item"}},{"fn":"store.put","args":{"all":"$1"}}]}`), nil)
	t.Log(string(a.JSON))
	var f struct{ Resume string }
	_ = json.Unmarshal(a.JSON, &f)
	broken = false
	a = e.Run(t.Context(), []byte(`{"resume":"`+f.Resume+`"}`), nil)
	t.Log(string(a.JSON), puts)
}
