package stepstest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// Every rule finds the defects that violate it.
func TestDefectsAreFound(t *testing.T) {
	t.Parallel()
	get := func(change func(fn *steps.Function)) func(*testing.T, *alteredSource) {
		return func(_ *testing.T, a *alteredSource) {
			whole := a.functions
			a.functions = func() []steps.Function {
				fns := whole()
				change(&fns[0])
				return fns
			}
		}
	}
	call := func(wrap func(steps.Call) steps.Call) func(*testing.T, *alteredSource) {
		return get(func(fn *steps.Function) { fn.Call = wrap(fn.Call) })
	}
	var stored []byte
	tests := []struct {
		name, rule, want string
		alter            func(*testing.T, *alteredSource)
	}{
		{"no source in the name", "spec", "canonical", get(func(fn *steps.Function) { fn.Name = "get" })},
		{"space in the name", "spec", "canonical", get(func(fn *steps.Function) { fn.Name = "shelf.ge t" })},
		{"no description", "spec", "description", get(func(fn *steps.Function) { fn.Description = " " })},
		{"effect not declared", "spec", "effect", get(func(fn *steps.Function) { fn.EffectDeclared = false })},
		{"no input schema", "spec", "input schema", get(func(fn *steps.Function) { fn.Input = nil })},
		{"not an object", "spec", "input schema", get(func(fn *steps.Function) { fn.Input = []byte(`{"type":"string"}`) })},
		{"alternatives at the root", "spec", "oneOf", get(func(fn *steps.Function) { fn.Input = []byte(`{"type":"object","oneOf":[{}]}`) })},
		{"input that does not compile", "spec", "not checked", get(func(fn *steps.Function) {
			fn.Input = []byte(`{"type":"object","properties":{"name":{"pattern":"("}}}`)
		})},
		{"output that does not compile", "spec", "output", get(func(fn *steps.Function) { fn.Output = []byte(`{"type":"thing"}`) })},
		{"unknown heavy", "spec", "registered", get(func(fn *steps.Function) { fn.Heavy = "sometimes" })},
		{"no functions", "spec", "no functions", func(_ *testing.T, a *alteredSource) { a.functions = func() []steps.Function { return nil } }},
		{"functions that change", "spec", "different functions", func(_ *testing.T, a *alteredSource) {
			whole, n := a.functions, 0
			a.functions = func() []steps.Function {
				n++
				return whole()[:1+n%2]
			}
		}},
		{"a result that is not JSON", "result", "is not valid JSON", call(func(steps.Call) steps.Call {
			return func(context.Context, []byte) ([]byte, error) { return []byte("text"), nil }
		})},
		{"a result of another shape", "result", "output schema", call(func(steps.Call) steps.Call {
			return func(context.Context, []byte) ([]byte, error) { return []byte(`{"txt":"b"}`), nil }
		})},
		{"examples that do not fit", "result", "example", get(func(fn *steps.Function) {
			fn.Input = []byte(`{"type":"object","properties":{"name":{"type":"integer"}}}`)
		})},
		{"a panic", "misfit", "panics", call(func(next steps.Call) steps.Call {
			return func(ctx context.Context, args []byte) ([]byte, error) {
				if gjson.GetBytes(args, "name").Type != gjson.String {
					panic("no name")
				}
				return next(ctx, args)
			}
		})},
		{"errors without a code", "fails", "without a code", call(func(next steps.Call) steps.Call {
			return func(ctx context.Context, args []byte) ([]byte, error) {
				result, err := next(ctx, args)
				if err != nil {
					err = errors.New(err.Error())
				}
				return result, err
			}
		})},
		{"a code of its own", "fails", "closed list", call(func(next steps.Call) steps.Call {
			return func(ctx context.Context, args []byte) ([]byte, error) {
				result, err := next(ctx, args)
				if err != nil {
					err = fault.New("lost", "x")
				}
				return result, err
			}
		})},
		{"hidden failures", "fails", "accepted", call(func(steps.Call) steps.Call {
			return func(context.Context, []byte) ([]byte, error) { return []byte(`{"text":""}`), nil }
		})},
		{"changed arguments", "args", "changes", call(func(next steps.Call) steps.Call {
			return func(ctx context.Context, args []byte) ([]byte, error) {
				result, err := next(ctx, args)
				args[0] = ' '
				return result, err
			}
		})},
		{"a piece of the arguments", "args", "memory of its arguments", call(func(steps.Call) steps.Call {
			return func(_ context.Context, args []byte) ([]byte, error) { return args[8:11], nil }
		})},
		{"kept arguments", "args", "again", call(func(next steps.Call) steps.Call {
			return func(ctx context.Context, args []byte) ([]byte, error) {
				if stored != nil {
					return stored, nil
				}
				stored = args
				return next(ctx, args)
			}
		})},
		{"a hang", "cancel", "does not return", call(func(steps.Call) steps.Call {
			return func(context.Context, []byte) ([]byte, error) { select {} }
		})},
		{"failing concurrently", "concurrent", "concurrently", call(func(next steps.Call) steps.Call {
			var running atomic.Int32
			return func(ctx context.Context, args []byte) ([]byte, error) {
				if running.Add(1) > 1 {
					return nil, fault.New(fault.Busy, "one at a time")
				}
				return next(ctx, args)
			}
		})},
		{"Close fails the second time", "close", "Close fails", func(_ *testing.T, a *alteredSource) {
			closed := false
			whole := a.close
			a.close = func() error {
				if closed {
					return errors.New("closed already")
				}
				closed = true
				return whole()
			}
		}},
		{"calls after Close", "close", "after Close is accepted", func(_ *testing.T, a *alteredSource) { a.close = func() error { return nil } }},
		{"another code after Close", "close", "want [unavailable]", call(func(next steps.Call) steps.Call {
			return func(ctx context.Context, args []byte) ([]byte, error) {
				result, err := next(ctx, args)
				if err != nil {
					err = fault.New(fault.Internal, "x")
				}
				return result, err
			}
		})},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			o := options()
			o.New = func(t *testing.T) steps.Source {
				good := newTexts(t)
				a := &alteredSource{Source: good, functions: good.Functions, close: good.Close}
				test.alter(t, a)
				return a
			}
			if report := defects(t, o, test.rule); !strings.Contains(report, test.want) {
				t.Errorf("got defects %q, want %q", report, test.want)
			}
		})
	}
}

func TestOptionsAreChecked(t *testing.T) {
	t.Parallel()
	o := options()
	o.Args = map[string]string{"shelf.lend": `{}`}
	if report := defects(t, o, "result"); !strings.Contains(report, "does not offer") {
		t.Errorf("got defects %q, want does not offer", report)
	}
	o.Args = nil
	if report := defects(t, o, "result"); !strings.Contains(report, "nothing can be called") {
		t.Errorf("got defects %q, want nothing can be called", report)
	}
}

// defects runs one rule and returns the defects that it finds.
func defects(t *testing.T, o Options, rule string) string {
	t.Helper()
	var mu sync.Mutex
	var report strings.Builder
	s := newSuite(t, o, func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(&report, format+"\n", args...)
	})
	s.callTimeout = time.Second
	for _, r := range rules {
		if r.name == rule {
			r.check(s)
		}
	}
	return report.String()
}
