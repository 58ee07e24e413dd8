package cache

import (
	"context"
	"fmt"
	"testing"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// Private calls are neither answered from the cache nor stored in it; calls of other sources are.
func TestPrivate(t *testing.T) {
	t.Parallel()
	fn, calls := counted("My-Files.get")
	other, _ := counted("b.get")
	r := wrapped(t, New(nil), fn, other)
	private := steps.WithPrivateCalls(t.Context(), "my_files")
	if got := call(t, r, "My-Files.get", `{}`); got != `{"n":1}` {
		t.Errorf(`first call: got %s, want {"n":1}`, got)
	}
	for i, want := range []string{`{"n":2}`, `{"n":3}`} {
		if got, err := tryCall(private, r, "My-Files.get", `{}`); got != want || err != nil {
			t.Errorf("private call %d: got %s, %v, want %s", i, got, err, want)
		}
	}
	if got := call(t, r, "My-Files.get", `{}`); got != `{"n":1}` || calls.Load() != 3 {
		t.Errorf("call after private calls: got %s after %d calls, want the first answer and 3", got, calls.Load())
	}
	call(t, r, "b.get", `{}`)
	if got, err := tryCall(private, r, "b.get", `{}`); got != `{"n":1}` || err != nil {
		t.Errorf("private call of another source: got %s, %v, want the cached answer", got, err)
	}
}

// What a caller has kept is given to that caller alone, each time as it is then.
func TestKeptResults(t *testing.T) {
	t.Parallel()
	c := New(nil)
	get := steps.Function{Spec: steps.Spec{Name: "s.get", Effect: steps.Read, CacheTTL: minute},
		Call: func(ctx context.Context, _ []byte) ([]byte, error) { return steps.CallbacksOf(ctx).Kept(ctx, "oc1_7") }}
	r := wrapped(t, c, get)
	for _, caller := range []string{"ann", "bob", "", "ann"} {
		ctx := steps.WithCallbacks(t.Context(), &steps.Callbacks{Kept: func(_ context.Context, token string) ([]byte, error) {
			if caller == "" {
				return nil, fault.New(fault.TokenExpired, "%s has expired", token)
			}
			return fmt.Appendf(nil, `[%q,%q]`, caller, token), nil
		}})
		got, err := tryCall(ctx, r, "s.get", `{}`)
		if want := fmt.Sprintf(`[%q,"oc1_7"]`, caller); caller != "" && (got != want || err != nil) {
			t.Errorf("%s gets %s, %v, want %s", caller, got, err, want)
		}
		if caller == "" && fault.CodeOf(err) != fault.TokenExpired {
			t.Errorf("a caller with nothing gets %s, %v, want token_expired", got, err)
		}
	}
	checkInvariants(t, c)
}

// A call that is given a block of its run is not cached: no later one is equal to it.
func TestBlocksAsArguments(t *testing.T) {
	t.Parallel()
	c := New(nil)
	fn, calls := counted("s.get")
	r := wrapped(t, c, fn)
	for range 2 {
		blocks := &steps.Blocks{}
		ctx := steps.WithCallbacks(t.Context(), &steps.Callbacks{Blocks: blocks})
		handle, err := blocks.Add(&steps.Block{Bytes: []byte("picture")})
		if err != nil {
			t.Fatal(err)
		}
		mark, _ := blocks.Refer(handle)
		for _, text := range []string{handle, mark} {
			if _, err := tryCall(ctx, r, "s.get", fmt.Sprintf(`{"x":%q}`, text)); err != nil {
				t.Error(err)
			}
		}
		if _, err := tryCall(ctx, r, "s.get", `{"x":"text"}`); err != nil {
			t.Error(err)
		}
	}
	if calls.Load() != 5 || c.stored.Len() != 1 {
		t.Errorf("%d calls and %d answers, want 5 and 1", calls.Load(), c.stored.Len())
	}
}
