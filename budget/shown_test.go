package budget_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/fault"
)

// TestShown: a value that was kept as shown is returned with the time, to its owner with the same rights only, and can be fetched. A value
// that was not shown is not returned.
func TestShown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all := results(t, nil)
		for _, rights := range []budget.Rights{{}, {Level: 2}, {Level: 1, Scope: "x.*"}} {
			mine := all.WithRights(rights)
			token, err := mine.KeepShown(t.Context(), "a", []byte(`[1]`))
			must(t, err)
			began := time.Now()
			time.Sleep(time.Minute)
			if got, err := mine.Shown(t.Context(), "a", token); err != nil || string(got.Value) != "[1]" || !got.At.Equal(began) || got.Ends {
				t.Errorf("%+v: got %+v, %v", rights, got, err)
			}
			if value, _, err := mine.Value(t.Context(), "a", token); err != nil || string(value) != "[1]" {
				t.Errorf("%+v: fetched %s, %v", rights, value, err)
			}
			for name, other := range map[string]*budget.Results{"b": mine, "a": all.WithRights(budget.Rights{Scope: "y.*"})} {
				if _, err := other.Shown(t.Context(), name, token); fault.CodeOf(err) != fault.TokenExpired {
					t.Errorf("%+v, read by %s: %v, want token_expired", rights, name, err)
				}
				if _, _, err := other.Value(t.Context(), name, token); fault.CodeOf(err) != fault.TokenExpired {
					t.Errorf("%+v, fetched by %s: %v, want token_expired", rights, name, err)
				}
			}
			kept, _, err := mine.Keep(t.Context(), "a", []byte(`[1]`))
			must(t, err)
			if _, err := mine.Shown(t.Context(), "a", kept); fault.CodeOf(err) != fault.TokenExpired {
				t.Errorf("%+v: a value that was not shown: %v, want token_expired", rights, err)
			}
			for range 14 { // up to 57 minutes
				time.Sleep(4 * time.Minute)
				got, err := mine.Shown(t.Context(), "a", token)
				if must(t, err); got.Ends != (time.Since(began) > 55*time.Minute) {
					t.Errorf("after %v: got %t, want that it ends if a new result would live longer", time.Since(began), got.Ends)
				}
			}
			time.Sleep(4 * time.Minute)
			if _, err := mine.Shown(t.Context(), "a", token); fault.CodeOf(err) != fault.TokenExpired {
				t.Errorf("after an hour: %v, want token_expired", err)
			}
		}
	})
}
