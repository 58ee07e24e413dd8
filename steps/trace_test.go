package steps

import (
	"context"
	"testing"
)

func TestTrace(t *testing.T) {
	t.Parallel()
	const parent, state = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "onecall=1"
	plain := t.Context()
	traced := WithTrace(plain, parent, state)
	for _, c := range []struct {
		name          string
		ctx           context.Context
		parent, state string
	}{
		{"none", plain, "", ""},
		{"set", traced, parent, state},
		{"without a state", WithTrace(traced, parent, ""), parent, ""},
		{"taken away", WithTrace(traced, "", state), "", ""},
	} {
		if p, s := Trace(c.ctx); p != c.parent || s != c.state {
			t.Errorf("%s: %q and %q, want %q and %q", c.name, p, s, c.parent, c.state)
		}
	}
}
