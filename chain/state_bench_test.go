package chain_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/chain/journal/sqljournal"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/source/state"
)

// BenchmarkState measures chains of one step over a SQLite file: one that reads state, by a call and by $state, one that changes it, and one
// that takes and ends a lock. The baselines are the same chain with a function that returns at once, and with one that writes nothing but
// its two events: the commits of a call that writes.
func BenchmarkState(b *testing.B) {
	d, err := sqljournal.OpenSQLite(filepath.Join(b.TempDir(), "journal.db"), nil)
	must(b, err)
	j, err := journal.New(d, &journal.Options{Key: modelKey})
	must(b, err)
	b.Cleanup(func() { j.Close() })
	source := state.New(&state.Options{Journal: func() *journal.Journal { return j }})
	bare := func(name string, effect steps.Effect) steps.Function {
		return steps.Function{Spec: steps.Spec{Name: name, Effect: effect, EffectDeclared: true}, Prompt: true,
			Call: func(context.Context, []byte) ([]byte, error) { return []byte(`{"value":7}`), nil }}
	}
	functions := append(source.Functions(), bare("bare.read", steps.Read), bare("bare.write", steps.Write))
	e := engineOf(b, functions, chain.Options{Journal: j, ReadState: source.ReadState}, false)
	for i := range 1000 {
		a := e.Run(b.Context(), fmt.Appendf(nil, `{"steps":[{"state.set":{"key":"k%d","value":7}}]}`, i), nil)
		if !a.OK {
			b.Fatalf("%s", a.JSON)
		}
		if i == 9 && testing.Short() {
			break
		}
	}
	for _, arm := range []struct{ name, request, path, want string }{
		{"read/baseline", `{"steps":[{"bare.read":{}}]}`, "result.value", "7"},
		{"read/get", `{"steps":[{"state.get":{"key":"k5"}}]}`, "result.value", "7"},
		{"read/reference", `{"steps":[{"expr":"$state.k5"}]}`, "result", "7"},
		{"write/baseline", `{"steps":[{"bare.write":{}}]}`, "result.value", "7"},
		{"write/set", `{"steps":[{"state.set":{"key":"k5","value":7}}]}`, "ok", "true"},
		{"write/lock", `{"steps":[{"state.lock":{"name":"l"}},{"state.unlock":{"token":"$0.token"}}]}`, "result.unlocked", "true"},
	} {
		b.Run(arm.name, func(b *testing.B) {
			for b.Loop() {
				if a := e.Run(b.Context(), []byte(arm.request), nil); gjson.GetBytes(a.JSON, arm.path).Raw != arm.want {
					b.Fatalf("%s: %s", arm.request, a.JSON)
				}
			}
		})
	}
}
