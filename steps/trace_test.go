package steps_test

import (
	"context"
	"testing"

	"github.com/onecall-mcp/onecall/steps"
)

func TestTrace(t *testing.T) {
	t.Parallel()
	const parent, state = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "onecall=1"
	plain := t.Context()
	traced := steps.WithTrace(plain, parent, state)
	for _, c := range []struct {
		name          string
		ctx           context.Context
		parent, state string
	}{
		{"none", plain, "", ""},
		{"set", traced, parent, state},
		{"without a state", steps.WithTrace(traced, parent, ""), parent, ""},
		{"removed", steps.WithTrace(traced, "", state), "", ""},
	} {
		if p, s := steps.Trace(c.ctx); p != c.parent || s != c.state {
			t.Errorf("%s: %q and %q, want %q and %q", c.name, p, s, c.parent, c.state)
		}
	}
}
