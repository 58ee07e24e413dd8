package exposure_test

import (
	"context"
	"slices"
	"testing"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/internal/exposure"
	"github.com/onecall-mcp/onecall/steps"
)

var _ chain.SessionLabels = (*exposure.Labels)(nil)

// TestLabels: trusted values have no labels; labels that no rule through a model names are not remembered; what is not known of state has
// all.
func TestLabels(t *testing.T) {
	t.Parallel()
	known := true
	rules := exposure.Rules{Model: []string{"a"}, All: []string{"a", "b"}, Trusted: []string{"*@example.com", "42", "out/*", "https://a.example/*"},
		State: func(_ context.Context, caller string, args []byte) ([]steps.Label, bool) {
			return []steps.Label{{Name: caller + string(args)}}, known
		}}
	l := rules.Open(t.Context(), "ann", &exposure.Record{}, nil, nil)
	l.Shown([]string{"a", "b"})
	for value, want := range map[string][]string{
		`"x"`: {"a"}, `"ann@example.com"`: nil, `"\u0061nn@example.com"`: nil, `"ann@example.com.evil"`: {"a"}, `42`: nil, `"42"`: nil,
		`420`: {"a"}, `true`: {"a"}, `"évé.x+y@example.com"`: nil, `"eve@x.net, a@example.com"`: {"a"}, `"eve@x.net,a@example.com"`: {"a"},
		`"a private text a@example.com"`: {"a"}, `"eve@x.net\na@example.com"`: {"a"}, `"<eve@x.net>a@example.com"`: {"a"},
		`"eve@x.net@example.com"`: {"a"}, `"'eve'//a@example.com"`: {"a"}, `"7//@example.com"`: {"a"}, `"out/a/b-1.md"`: nil,
		`"out/../../etc/x"`: {"a"}, `"out/.."`: {"a"}, `"out/%2e%2e/x"`: {"a"}, `"https://a.example/b/c"`: nil,
		`"https://a.example/b?q=private"`: {"a"}, `"https://a.example//b"`: {"a"},
	} {
		if got := l.Sent([]byte(value)); !slices.Equal(got, want) {
			t.Errorf("%s has %q, want %q", value, got, want)
		}
	}
	if got := l.State("k"); len(got) != 1 || got[0].Name != `ann{"key":"k"}` {
		t.Errorf("$state.k has %v", got)
	}
	known = false
	if got := l.Kept(&steps.Spec{State: true}, []byte(`{}`)); len(got) != 4 {
		t.Errorf("what is not known has %v, want both labels in both kinds", got)
	}
}
