package chain_test

import (
	"fmt"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/budget/memstore"
	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps/source/results"
)

// TestResumeWithOtherRights: a resume, and a request with the key, have from the journal what result.get gave only if their caller's rights
// cover those that it was given with. It need not be in the store of results any more.
func TestResumeWithOtherRights(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		began, resumed budget.Rights
		covered        bool
	}{
		{budget.Rights{}, budget.Rights{}, true},
		{budget.Rights{}, budget.Rights{Level: 1}, true},
		{budget.Rights{Level: 3}, budget.Rights{Level: 3}, true},
		{budget.Rights{Level: 3}, budget.Rights{Level: 4}, true},
		{budget.Rights{Level: 3}, budget.Rights{Level: 1}, false},
		{budget.Rights{Level: 3}, budget.Rights{}, false},
		{budget.Rights{Level: 3, Scope: "x.*"}, budget.Rights{Level: 3, Scope: "x.*"}, true},
		{budget.Rights{Level: 3, Scope: "x.*"}, budget.Rights{Level: 3}, true},
		{budget.Rights{Level: 3, Scope: "x.*"}, budget.Rights{Level: 3, Scope: "y.*"}, false},
	} {
		c, runs := &camera{}, newJournal(t, &journal.Memory{})
		store, empty := memoryResults(t), memoryResults(t)
		engine := func(store *budget.Results) *chain.Engine {
			return engineOf(t, append(c.functions(), results.New().Functions()...), chain.Options{Journal: runs, Results: store}, false)
		}
		began, resumed := &chain.Caller{ID: "ann", Rights: test.began}, &chain.Caller{ID: "ann", Rights: test.resumed}
		token, _, err := store.WithRights(test.began).Keep(t.Context(), "ann", []byte(`{"secret":7}`))
		must(t, err)
		c.broken.Store(true)
		a := engine(store).Run(t.Context(), fmt.Appendf(nil, `{"key":"k","steps":[{"result.get":{"token":%q}},{"cam.store":{"n":"$0.secret"}}],"return":"$0"}`,
			token), began)
		c.broken.Store(false)
		resume := gjson.GetBytes(a.JSON, "resume").Str
		if a.OK || resume == "" {
			t.Fatalf("%s", a.JSON)
		}
		for _, request := range []string{fmt.Sprintf(`{"lite":true,"resume":%q}`, resume), `{"lite":true,"key":"k"}`} {
			a := engine(empty).Run(t.Context(), []byte(request), resumed)
			if test.covered && string(a.JSON) != `{"secret":7}` {
				t.Errorf("%v: %s gives %s, want the result", test, request, a.JSON)
			}
			if !test.covered && (a.Error == nil || a.Error.Code != fault.TokenExpired || a.Error.At != "/steps/0/args/token") {
				t.Errorf("%v: %s gives %s, want token_expired", test, request, a.JSON)
			}
		}
	}
}

func memoryResults(t *testing.T) *budget.Results {
	t.Helper()
	store, err := memstore.New(nil)
	must(t, err)
	r, err := budget.NewResults(store, nil)
	must(t, err)
	t.Cleanup(func() { r.Close() })
	return r
}
