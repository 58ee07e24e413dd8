package chain_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/steps"
)

// savedFunction returns the function of a saved chain.
func savedFunction(t testing.TB, name, text string) steps.Function {
	t.Helper()
	function, faults := chain.Saved(name, []byte(text), &chain.Options{})
	if len(faults) > 0 {
		t.Fatalf("%s: %v", name, faults)
	}
	return *function
}

// savedEngine returns an engine over a bin and a saved chain.
func savedEngine(t *testing.T, o chain.Options, b *bin, name, text string) *chain.Engine {
	t.Helper()
	return engineOf(t, append(b.functions(), savedFunction(t, name, text)), o, false)
}

// TestCallOfSaved: a saved chain that is called by itself is like a chain of one step: its arguments are literal, and its result is the
// answer.
func TestCallOfSaved(t *testing.T) {
	t.Parallel()
	b := &bin{items: map[string]string{}}
	engine := savedEngine(t, chain.Options{}, b, "put", `{"params":{"key":{"type":"string"}},"steps":[{"fn":"bin.put","args":{"key":"$input.key","note":"$$5"}}],"return":"$0.id"}`)
	for args, want := range map[string]string{
		`{"key":"a"}`:   `{"ok":true,"result":"id-a"`,
		`{"key":"$0"}`:  `{"ok":true,"result":"id-$0"`,
		`{"key":7}`:     `{"ok":false,"error":{"code":"bad_arguments","fn":"chain.put","at":"/key"`,
		`{"kye":"a"}`:   `{"ok":false,"error":{"code":"bad_arguments","fn":"chain.put"`,
		`{"lite":true}`: `{"ok":false,"error":{"code":"bad_arguments"`,
	} {
		a := engine.Call(context.Background(), &chain.Call{Function: "chain.put", Args: []byte(args)}, nil)
		if !strings.HasPrefix(string(a.JSON), want) {
			t.Errorf("%s: %s, want %s", args, a.JSON, want)
		}
	}
	if len(b.log) != 2 || b.log[0] != `bin.put {"key":"a","note":"$5"}` && b.log[1] != `bin.put {"key":"a","note":"$5"}` {
		t.Errorf("calls %q, want two", b.log)
	}
}

// TestSavedResume: a resume compiles the current version of a saved chain, and repeats none of the calls that the run already made.
func TestSavedResume(t *testing.T) {
	t.Parallel()
	b := &bin{items: map[string]string{}}
	j := newJournal(t, nil)
	text := `{"steps":[{"fn":"bin.make","args":{"key":"a"}},{"fn":"bin.put","args":{"key":"b","fail":%q}}],"return":%s}`
	engine := savedEngine(t, chain.Options{Journal: j}, b, "two", fmt.Sprintf(text, "no", `"$1.id"`))
	a := engine.Run(context.Background(), []byte(`{"steps":[{"fn":"chain.two","forEach":"[1,2]"}]}`), nil)
	resume := gjson.GetBytes(a.JSON, "resume").Str
	if a.OK || resume == "" || len(b.log) != 2 {
		t.Fatalf("got %s after the calls %q, want a failure with a resume after two", a.JSON, b.log)
	}
	b.log = nil
	fixed := savedEngine(t, chain.Options{Journal: j}, b, "two", fmt.Sprintf(text, "", `["$0.id","$1.id"]`))
	a = fixed.Run(context.Background(), fmt.Appendf(nil, `{"resume":%q,"lite":true}`, resume), nil)
	if string(a.JSON) != `[["id-a","id-b"],["id-a","id-b"]]` ||
		strings.Join(b.log, "; ") != `bin.put {"key":"b","fail":""}; bin.make {"key":"a"}; bin.put {"key":"b","fail":""}` {
		t.Errorf("got %s after the calls %q, want the ids a and b twice, and only the calls that were left", a.JSON, b.log)
	}
}

// TestSavedFaults: faults of a saved chain are reported with their places in the file, whatever functions are available.
func TestSavedFaults(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"steps":[]`:  "bad_json",
		`[]`:           "bad_request",
		`{"steps":[]}`: "bad_request /steps 1:10",
		"{\"steps\":[\n{\"fn\":\"x.y\",\"agrs\":{}}]}":                "unknown_field /steps/0/agrs 2:13",
		`{"steps":[{"fn":"x.y","args":{"a":"$1"}}]}`:                  "bad_reference /steps/0/args/a 1:35",
		`{"steps":[{"fn":"x.y","args":{"a":"$input.b"}}]}`:            "bad_reference /steps/0/args/a 1:35",
		`{"params":{"b":{"type":"nonsense"}},"steps":[{"fn":"x.y"}]}`: "bad_request /params/b/type 1:24",
		`{"steps":[{"fn":"x.y","when":"$0 >"}]}`:                      "bad_expression /steps/0/when",
		`{"resume":"r","steps":[{"fn":"x.y"}]}`:                       "not_supported /resume 1:11",
		`{"budget":{"maxTotalTokens":7},"steps":[{"fn":"x.y"}]}`:      "budget_too_small /budget/maxTotalTokens 1:29",
		`{"continuation_token":"oc1_x"}`:                              "bad_request",
	} {
		_, faults := chain.Saved("x", []byte(text), &chain.Options{})
		if len(faults) == 0 {
			t.Errorf("%s: got no fault", text)
			continue
		}
		f := faults[0]
		if got := strings.TrimSpace(fmt.Sprintf("%s %s %d:%d", f.Code, f.At, f.Line, f.Column)); !strings.HasPrefix(got, want) {
			t.Errorf("%s: got %s (%s), want %s", text, got, f.Message, want)
		}
	}
	if fn, faults := chain.Saved("x", []byte(`{"steps":[{"fn":"no.such","args":{"a":1}},{"fn":"other","args":{"b":"$0.c"}}]}`),
		&chain.Options{}); len(faults) > 0 || fn.Name != "chain.x" {
		t.Errorf("a chain of unknown functions: faults %v, want none and the name chain.x", faults)
	}
}

// registryHolder holds the current registry, which a test replaces.
type registryHolder struct{ atomic.Pointer[steps.Registry] }

func (c *registryHolder) Registry() *steps.Registry { return c.Load() }
func (c *registryHolder) Starting() <-chan struct{} { return nil }

// TestSavedChangesWhileItRuns: a run continues with the saved chain that it was compiled from; the next run uses the new one.
func TestSavedChangesWhileItRuns(t *testing.T) {
	t.Parallel()
	b, functions := &bin{items: map[string]string{}}, &registryHolder{}
	registry := func(key string) *steps.Registry {
		list := append(b.functions(), steps.Function{Spec: steps.Spec{Name: "swap.now", Effect: steps.Read}})
		saved := fmt.Sprintf(`{"steps":[{"fn":"swap.now"},{"fn":"bin.put","args":{"key":%q,"note":"$0"}}],"return":"$1.id"}`, key)
		list = append(list, savedFunction(t, "two", saved))
		list[len(list)-2].Call = func(context.Context, []byte) ([]byte, error) {
			functions.Store(nil)
			return []byte("1"), nil
		}
		made := newRegistry(t, list)
		return made.LinkChains(nil)
	}
	old, changed := registry("old"), registry("new")
	functions.Store(old)
	engine, err := chain.New(&chain.Options{Functions: functions})
	must(t, err)
	for _, want := range []string{`"id-old"`, `"id-new"`} {
		a := engine.Run(context.Background(), []byte(`{"lite":true,"steps":[{"fn":"chain.two"}]}`), nil)
		if string(a.JSON) != want || functions.Load() != nil {
			t.Errorf("%s, want %s", a.JSON, want)
		}
		functions.Store(changed)
	}
}
