package steps

import (
	"context"
	"errors"
	"runtime"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/onecall-mcp/onecall/fault"
)

// calling registers one function and returns its entry.
func calling(t testing.TB, input string, o *RegistryOptions, call Call) *Entry {
	t.Helper()
	r, err := NewRegistry([]Function{{Spec: Spec{Name: "test.call", Input: []byte(input)}, Call: call}}, o)
	if err != nil {
		t.Fatal(err)
	}
	return r.All()[0]
}

// answering returns a function that always gives the same answer.
func answering(result string, err error) Call {
	return func(context.Context, []byte) ([]byte, error) { return []byte(result), err }
}

func TestCallArguments(t *testing.T) {
	t.Parallel()
	var called atomic.Int32
	e := calling(t, `{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"],"additionalProperties":false}`, nil,
		func(_ context.Context, args []byte) ([]byte, error) {
			called.Add(1)
			return []byte(`"` + strings.ReplaceAll(string(args), `"`, "'") + `"`), nil
		})
	for want, args := range map[string]string{`"{'n':1}"`: `{"n":1}`, `"{'n':12345678901234567890}"`: ` { "n" : 12345678901234567890 } `} {
		if got, err := e.Call(t.Context(), []byte(args)); err != nil || string(got) != want {
			t.Errorf("%s: got %s, %v, want %s", args, got, err, want)
		}
	}
	called.Store(0)
	for args, at := range map[string]string{``: "", `{}`: "", `{"n":"x"}`: "/n", `[]`: "", `{`: "", `{"n":1,"n":2}`: "/n",
		`{"n":"x","m":1}`: "", `{"n":1.5}`: "/n",
		strings.Repeat(`{"n":`, 20_000): ""} {
		_, err := e.Call(t.Context(), []byte(args))
		f, _ := fault.As(err)
		if f == nil || f.Code != fault.BadArguments || f.At != at || !strings.HasPrefix(f.Message, "test.call: ") {
			t.Errorf("%.40s: got %+v, want bad_arguments at %q", args, f, at)
		}
	}
	if called.Load() != 0 {
		t.Error("the function was called with invalid arguments")
	}
	noInput := calling(t, "", nil, echo)
	if got, err := noInput.Call(t.Context(), nil); err != nil || string(got) != "{}" {
		t.Errorf("call without arguments: got %s, %v, want {}", got, err)
	}
	if _, err := noInput.Call(t.Context(), []byte("[]")); fault.CodeOf(err) != fault.BadArguments {
		t.Errorf("call with a list: got %v, want bad_arguments", err)
	}
}

func TestCallWithEndedContext(t *testing.T) {
	t.Parallel()
	e := calling(t, "", nil, func(context.Context, []byte) ([]byte, error) {
		t.Error("the function was called although the context had ended")
		return []byte("1"), nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := e.Call(ctx, nil); fault.CodeOf(err) != fault.Cancelled || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want cancelled", err)
	}
}

// A function that ends its goroutine does not hang the call. A panic of a wrapper counts as a panic of the call.
func TestCallGoexitAndPanic(t *testing.T) {
	t.Parallel()
	e := calling(t, "", nil, func(context.Context, []byte) ([]byte, error) {
		runtime.Goexit()
		return nil, nil
	})
	if _, err := e.Call(t.Context(), nil); fault.CodeOf(err) != fault.Internal {
		t.Errorf("got %v, want internal", err)
	}
	r := registry(t, functions("a.b")...).Wrap(func(*Spec, Call) Call {
		return func(context.Context, []byte) ([]byte, error) { panic("in the wrapper") }
	}).Wrap(func(_ *Spec, next Call) Call { return next })
	if _, err := r.All()[0].Call(t.Context(), nil); fault.CodeOf(err) != fault.Internal {
		t.Errorf("got %v, want internal", err)
	}
	empty := registry(t, functions("a.b")...).Wrap(func(*Spec, Call) Call { return answering("", nil) })
	if _, err := empty.All()[0].Call(t.Context(), nil); fault.CodeOf(err) != fault.Internal {
		t.Errorf("got %v, want internal", err)
	}
}

// TestPromptFunctions: prompt functions run on their caller's goroutine, and others do not.
func TestPromptFunctions(t *testing.T) {
	t.Parallel()
	goroutine := func() string {
		text, _, _ := strings.Cut(string(debug.Stack()), " [")
		return text
	}
	var ranOn string
	call := func(context.Context, []byte) ([]byte, error) {
		ranOn = goroutine()
		return []byte(`1`), nil
	}
	r, err := NewRegistry([]Function{{Spec: Spec{Name: "a.prompt"}, Call: call, Prompt: true}, {Spec: Spec{Name: "a.other"}, Call: call}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, prompt := range map[string]bool{"a.prompt": true, "a.other": false} {
		entry, _ := r.Resolve(name)
		if _, err := entry.Call(t.Context(), nil); err != nil || (ranOn == goroutine()) != prompt {
			t.Errorf("%s ran on %s, its caller on %s: %v, want the same: %t", name, ranOn, goroutine(), err, prompt)
		}
	}
}
