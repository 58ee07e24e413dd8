package chain_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/budget/memstore"
	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/refs"
	"github.com/onecall-mcp/onecall/steps"
)

// world is the state that the functions of these tests act on. It records the calls that reach it.
type world struct {
	mu    sync.Mutex
	calls []string
	count int
}

func (w *world) record(call string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls = append(w.calls, call)
}

func (w *world) seen() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.calls...)
}

func schema(properties string, required ...string) json.RawMessage {
	names, _ := json.Marshal(append([]string{}, required...))
	return json.RawMessage(`{"type":"object","properties":{` + properties + `},"required":` + string(names) + `,"additionalProperties":false}`)
}

// functions returns the functions of these tests; each does what its name says.
func (w *world) functions() []steps.Function {
	read := func(name string, input json.RawMessage, call steps.Call) steps.Function {
		return steps.Function{Spec: steps.Spec{Name: name, Description: "For tests.", Input: input, Effect: steps.Read, EffectDeclared: true},
			Call: call}
	}
	fns := []steps.Function{
		read("test.echo", nil, func(_ context.Context, args []byte) ([]byte, error) { return append([]byte(nil), args...), nil }),
		read("test.get", schema(`"value":{}`, "value"), func(_ context.Context, args []byte) ([]byte, error) {
			return []byte(gjson.GetBytes(args, "value").Raw), nil
		}),
		read("test.fail", schema(`"message":{"type":"string"}`), func(_ context.Context, args []byte) ([]byte, error) {
			return nil, fault.New(fault.FunctionFailed, "it failed: %s", gjson.GetBytes(args, "message").Str)
		}),
		read("test.failIf", schema(`"value":{},"fail":{"type":"boolean"}`, "fail"), func(_ context.Context, args []byte) ([]byte, error) {
			if gjson.GetBytes(args, "fail").Bool() {
				return nil, fmt.Errorf("told to fail")
			}
			return []byte(`{"value":` + gjson.GetBytes(args, "value").Raw + `}`), nil
		}),
		read("test.sleep", schema(`"ms":{"type":"integer"},"value":{}`, "ms"), func(ctx context.Context, args []byte) ([]byte, error) {
			select {
			case <-time.After(time.Duration(gjson.GetBytes(args, "ms").Int()) * time.Millisecond):
				return []byte(`{"slept":` + gjson.GetBytes(args, "ms").Raw + `}`), nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}),
		read("test.stubborn", nil, func(context.Context, []byte) ([]byte, error) { time.Sleep(time.Hour); return []byte("1"), nil }),
		read("test.next", schema(`"cursor":{}`), func(context.Context, []byte) ([]byte, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.count++
			return fmt.Appendf(nil, `{"cursor":%d,"done":%t}`, w.count, w.count >= 3), nil
		}),
		read("test.listing", schema(`"cursor":{"type":["integer","null"]}`), func(_ context.Context, args []byte) ([]byte, error) {
			page := gjson.GetBytes(args, "cursor").Int()
			next := "null"
			if page < 2 {
				next = fmt.Sprint(page + 1)
			}
			return fmt.Appendf(nil, `{"rows":[{"id":%d},{"id":%d.50}],"next":%s}`, page, page, next), nil
		}),
		read("test.browse", schema(`"cursor":{"type":"string"},"by":{"type":["string","null"]}`),
			func(_ context.Context, args []byte) ([]byte, error) {
				if gjson.GetBytes(args, "cursor").Str == "" {
					return []byte(`{"rows":[1,2],"next":"b"}`), nil
				}
				return []byte(`{"rows":[3],"next":null}`), nil
			}),
		read("test.flaky", schema(`"failures":{"type":"integer"}`), func(_ context.Context, args []byte) ([]byte, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.count++; w.count <= int(gjson.GetBytes(args, "failures").Int()) {
				return nil, fault.New(fault.Unavailable, "not yet")
			}
			return fmt.Appendf(nil, `{"attempts":%d}`, w.count), nil
		}),
		read("test.items", schema(`"n":{"type":"integer","minimum":0},"text":{"type":"string"}`, "n"),
			func(_ context.Context, args []byte) ([]byte, error) {
				list := make([]string, gjson.GetBytes(args, "n").Int())
				for i := range list {
					list[i] = fmt.Sprintf(`{"id":%d,"name":"item %d"}`, i, i)
				}
				return []byte(`{"total":` + fmt.Sprint(len(list)) + `,"items":[` + strings.Join(list, ",") + `]}`), nil
			}),
		{Spec: steps.Spec{Name: "test.page", Description: "For tests.", Effect: steps.Read, EffectDeclared: true,
			Output: schema(`"files":{"type":"array"},"truncated":{"type":"boolean"}`)},
			Call: func(context.Context, []byte) ([]byte, error) { return []byte(`{"files":[1,2],"truncated":true}`), nil }},
		{Spec: steps.Spec{Name: "test.loose", Description: "For tests.", Effect: steps.Read, EffectDeclared: true,
			Output: json.RawMessage(`{"type":"object","properties":{"title":{"type":"string"},"width":{"type":"integer"}}}`)},
			Call: func(context.Context, []byte) ([]byte, error) {
				return []byte(`{"title":"a","width":1,"whole":true}`), nil
			}},
		{Spec: steps.Spec{Name: "test.cat", Description: "For tests.", Effect: steps.Read, EffectDeclared: true, Input: schema(`"path":{"type":"string"}`),
			Output: schema(`"path":{"type":"string"},"text":{"type":"string"},"lines":{"type":"array","items":{"type":"string"}}`, "path", "text", "lines")},
			Call: func(_ context.Context, args []byte) ([]byte, error) {
				if path := gjson.GetBytes(args, "path").Str; path != "" {
					return nil, &fault.Error{Code: fault.FunctionFailed, Message: path + " does not exist", At: "/path"}
				}
				return []byte(`{"path":"a","text":"x\ny\n","lines":["x","y"]}`), nil
			}},
		read("test.deny", schema(`"path":{"type":"string"}`), func(context.Context, []byte) ([]byte, error) {
			return nil, &fault.Error{Code: fault.Denied, Message: "it is outside", At: "/path"}
		}),
		{Spec: steps.Spec{Name: "test.compute", Description: "For tests.", Effect: steps.Read, EffectDeclared: true, Input: schema(`"expression":{"type":"string"}`),
			Expression: "expression", Check: func(args []byte, _ func(string) bool) *fault.Error {
				f := refs.CheckFree(gjson.GetBytes(args, "expression").Str, []string{})
				if f != nil {
					f = f.Under("/expression")
				}
				return f
			}},
			Call: func(ctx context.Context, args []byte) ([]byte, error) {
				return refs.EvalFree(ctx, gjson.GetBytes(args, "expression").Str, nil)
			}},
		read("test.panic", nil, func(context.Context, []byte) ([]byte, error) { panic("boom") }),
		read("test.text", nil, func(context.Context, []byte) ([]byte, error) { return []byte("not JSON"), nil }),
		{Spec: steps.Spec{Name: "test.write", Description: "For tests.", Input: schema(`"value":{},"repoId":{"type":"string"}`), EffectDeclared: true},
			Call: func(_ context.Context, args []byte) ([]byte, error) {
				return []byte(`{"written":` + string(args) + `}`), nil
			}},
		{Spec: steps.Spec{Name: "test.card.get", Description: "For tests.", Effect: steps.Read, EffectDeclared: true,
			Input:  schema(`"cardId":{"type":"string"},"limit":{"type":"integer","minimum":1},"repoId":{"type":"string"}`, "cardId"),
			Output: schema(`"card":{"type":"object","properties":{"id":{"type":"string"},"size":{"type":"integer"}},"additionalProperties":false}`, "card")},
			Call: func(_ context.Context, args []byte) ([]byte, error) {
				return []byte(`{"card":{"id":` + gjson.GetBytes(args, "cardId").Raw + `,"size":7}}`), nil
			}},
	}
	return fns
}

// recorded wraps functions so that the world records their calls.
func (w *world) recorded(fns []steps.Function) []steps.Function {
	for i := range fns {
		name, call := fns[i].Name, fns[i].Call
		fns[i].Call = func(ctx context.Context, args []byte) ([]byte, error) {
			w.record(name + " " + string(args))
			return call(ctx, args)
		}
	}
	return fns
}

func registryOf(t testing.TB, w *world) *steps.Registry {
	t.Helper()
	return newRegistry(t, w.functions())
}

func newRegistry(t testing.TB, fns []steps.Function) *steps.Registry {
	t.Helper()
	registry, err := steps.NewRegistry(fns, nil)
	must(t, err)
	return registry
}

func newCounter(t testing.TB, factor float64) budget.Counter {
	t.Helper()
	counter, err := budget.NewCounter("", factor)
	must(t, err)
	return counter
}

// engine returns an engine over the functions of these tests, with a store in memory.
func engine(t testing.TB, w *world, o chain.Options) *chain.Engine {
	t.Helper()
	return engineOf(t, w.recorded(w.functions()), o, true)
}

// engineOf returns an engine over functions, with a store in memory if keeps is set.
func engineOf(t testing.TB, fns []steps.Function, o chain.Options, keeps bool) *chain.Engine {
	t.Helper()
	registry := newRegistry(t, fns)
	return engineOn(t, registry.LinkChains(nil), o, keeps)
}

// engineOn returns an engine over the functions of a registry.
func engineOn(t testing.TB, registry *steps.Registry, o chain.Options, keeps bool) *chain.Engine {
	t.Helper()
	o.Functions = registry
	if keeps {
		store, err := memstore.New(nil)
		must(t, err)
		if o.Results, err = budget.NewResults(store, nil); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { o.Results.Close() })
	}
	e, err := chain.New(&o)
	must(t, err)
	return e
}

// newJournal returns a journal over a driver; nil: one in memory.
func newJournal(t testing.TB, d journal.Driver) *journal.Journal {
	t.Helper()
	if d == nil {
		d = &journal.Memory{}
	}
	j, err := journal.New(d, nil)
	must(t, err)
	t.Cleanup(func() { j.Close() })
	return j
}

func codeOf(a *chain.Answer) fault.Code {
	if a.Error == nil {
		return ""
	}
	return a.Error.Code
}

// must fails a test whose setup failed.
func must(t interface {
	Helper()
	Fatal(args ...any)
}, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
