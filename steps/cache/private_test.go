package cache

import (
	"testing"

	"github.com/onecall-mcp/onecall/steps"
)

// Private calls are neither answered from the cache nor stored in it; calls of other sources are.
func TestPrivate(t *testing.T) {
	t.Parallel()
	mine, calls := counted("My-Files.get")
	other, _ := counted("b.get")
	r := wrapped(t, New(nil), mine, other)
	private := steps.Private(t.Context(), "my_files")
	if got := call(t, r, "My-Files.get", `{}`); got != `{"n":1}` {
		t.Errorf("first %s", got)
	}
	for i, want := range []string{`{"n":2}`, `{"n":3}`} {
		if got, err := tryCall(private, r, "My-Files.get", `{}`); got != want || err != nil {
			t.Errorf("private %d: %s, %v", i, got, err)
		}
	}
	if got := call(t, r, "My-Files.get", `{}`); got != `{"n":1}` || calls.Load() != 3 {
		t.Errorf("afterwards %s", got)
	}
	call(t, r, "b.get", `{}`)
	if got, err := tryCall(private, r, "b.get", `{}`); got != `{"n":1}` || err != nil {
		t.Errorf("of another source: %s, %v", got, err)
	}
}
