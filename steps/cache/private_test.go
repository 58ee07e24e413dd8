package cache

import (
	"testing"

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
