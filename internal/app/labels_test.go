package app

import (
	"context"
	"testing"

	"github.com/onecall-mcp/onecall/steps"
)

// TestLabelsOf: who counts as one client: a session, or else the process of a server on stdio, or the caller of one over HTTP. Each command
// starts over.
func TestLabelsOf(t *testing.T) {
	t.Parallel()
	const rules = `flows: {rules: [{from: untrusted, to: write, do: deny, through: model}], trusted: ["trusted *"]}`
	session := steps.WithSession(t.Context(), &steps.Session{})
	for name, test := range map[string]struct {
		traits       serverTraits
		first, later context.Context
		caller       string // of the later request; the first is ann's
		knows        bool
	}{
		"a session":             {serverTraits{serve: true, overHTTP: true}, session, session, "ann", true},
		"another session":       {serverTraits{serve: true, overHTTP: true}, session, steps.WithSession(t.Context(), &steps.Session{}), "ann", false},
		"stdio":                 {serverTraits{serve: true}, t.Context(), t.Context(), "bob", true},
		"a caller over HTTP":    {serverTraits{serve: true, overHTTP: true}, t.Context(), t.Context(), "ann", true},
		"another caller":        {serverTraits{serve: true, overHTTP: true}, t.Context(), t.Context(), "bob", false},
		"a later command's run": {serverTraits{}, t.Context(), t.Context(), "ann", false},
	} {
		a := appOf(t, rules, test.traits)
		a.openLabels(&a.config.Config, nil)
		a.labelsOf(test.first, "ann", []byte(`{"x":"sent before"}`)).Shown([]string{"untrusted"})
		later := a.labelsOf(test.later, test.caller, []byte(`{"x":"sent later"}`))
		for value, labeled := range map[string]bool{`"sent before"`: false, `"sent later"`: test.knows, `"trusted text"`: false} {
			if got := later.Sent([]byte(value)); (len(got) > 0) != labeled {
				t.Errorf("%s: %s has %q, want labels: %t", name, value, got, labeled)
			}
		}
	}
	if a := appOf(t, "", serverTraits{serve: true}); a.sessionLabels() != nil {
		t.Error("without rules, what clients were shown is remembered")
	}
}
