package budget_test

import (
	"context"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/fault"
)

// TestRights: an owner gets what it stored as long as it has at least the same rights; others never get it, whatever their rights.
func TestRights(t *testing.T) {
	t.Parallel()
	results := results(t, nil)
	rapid.Check(t, func(t *rapid.T) {
		owners := rapid.SampledFrom([]string{"", "a", "a:1", "a:1:", "b"})
		rights := rapid.Custom(func(t *rapid.T) budget.Rights {
			return budget.Rights{
				Level: rapid.SampledFrom([]int{0, 1, 2, 3, 10, math.MaxInt}).Draw(t, "level"),
				Scope: rapid.SampledFrom([]string{"", "x.*", "x.* y.*", "1", ":"}).Draw(t, "scope"),
			}
		})
		owner, before := owners.Draw(t, "owner"), rights.Draw(t, "had")
		token, _, err := results.WithRights(before).Keep(t.Context(), owner, []byte(`1`))
		must(t, err)
		reader, now := owners.Draw(t, "who"), rights.Draw(t, "has")
		want := reader == owner && now.Level >= before.Level && (now.Scope == "" || now.Scope == before.Scope)
		_, _, err = results.WithRights(now).Value(t.Context(), reader, token)
		if want && err != nil || !want && fault.CodeOf(err) != fault.TokenExpired {
			t.Fatalf("stored by %q with %+v, fetched by %q with %+v: %v, want success %t, else token_expired", owner, before, reader, now, err, want)
		}
		// A refused fetch does not change the result for its owner.
		if _, _, err := results.WithRights(before).Value(t.Context(), owner, token); err != nil {
			t.Fatal(err)
		}
	})
}

// markedDriver has one entry, which a test may change.
type markedDriver struct {
	budget.Driver
	entry budget.Entry
}

func (m *markedDriver) Put(_ context.Context, _ string, e budget.Entry) error {
	m.entry = e
	return nil
}
func (m *markedDriver) Touch(context.Context, string, time.Time) error { return nil }
func (m *markedDriver) Get(_ context.Context, _ string, admit budget.Admit) (budget.Entry, error) {
	return m.entry, admit.Check(m.entry, int64(len(m.entry.Value)))
}

// TestRightsOfOldMarks: a result that an older version stored, without rights, belongs to its owner; a malformed one belongs to no owner.
func TestRightsOfOldMarks(t *testing.T) {
	t.Parallel()
	store := &markedDriver{}
	results, err := budget.NewResults(store, nil)
	must(t, err)
	token, _, err := results.Keep(t.Context(), "a", []byte(`1`))
	must(t, err)
	plain := store.entry.Owner
	for mark, want := range map[string]fault.Code{plain: "", plain + ":x:": fault.TokenExpired, plain + ":2:": "", plain +
		":3:": fault.TokenExpired, "": fault.TokenExpired, ":2:": fault.TokenExpired} {
		store.entry.Owner = mark
		if _, _, err := results.WithRights(budget.Rights{Level: 2}).Value(t.Context(), "a", token); fault.CodeOf(err) != want {
			t.Errorf("owner mark %q: %v, want %q", mark, err, want)
		}
	}
	if _, _, err := results.WithRights(budget.Rights{Level: 1, Scope: "x.*"}).Keep(t.Context(), "a", []byte(`1`)); err != nil ||
		len(store.entry.Owner) > 128 {
		t.Errorf("the owner mark has %d bytes, want at most 128: %v", len(store.entry.Owner), err)
	}
}
