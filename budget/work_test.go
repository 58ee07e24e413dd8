package budget_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/share"
)

// TestWorkOnLargeValuesTakesATurn: each mode of a fetch, and the description of a result, waits for its caller's turn where the
// value is large; the query has turns of its own; a wait ends with its context; and every turn is given back.
func TestWorkOnLargeValuesTakesATurn(t *testing.T) {
	t.Parallel()
	large := `[` + strings.Repeat(`{"id":1,"name":"abcdefgh"},`, 100_000) + `{"id":2}]`
	for name, f := range map[string]budget.Fetch{
		"summary":   {Mode: budget.ModeSummary},
		"pages":     {Mode: budget.ModePaginated},
		"filtered":  {Mode: budget.ModeFiltered, FilterKeys: []string{"id"}},
		"query":     {Mode: budget.ModeQuery, Query: "x"},
		"full":      {Mode: budget.ModeFull},
		"no mode":   {},
		"described": {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				shares := share.New(1)
				mine := share.With(t.Context(), shares.Of("me", 0))
				r := results(t, nil)
				small, token := keep(t, r, `[1]`), keep(t, r, large)
				query := func(ctx context.Context, _ string, value []byte) ([]byte, error) {
					turn, err := share.From(ctx).Turn(ctx)
					defer turn.Done()
					return value, err
				}
				fetch := func(ctx context.Context, token string) error {
					if name == "described" {
						_, err := r.ProbeWithin(ctx, "me", []byte(large), func(b []byte) bool { return len(b) < 1000 })
						return err
					}
					f := f
					f.Token = token
					_, err := r.Answer(ctx, "me", f, nil, query)
					return err
				}
				other, err := shares.Of("other", 0).Turn(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				done, left := make(chan error, 1), make(chan error, 1)
				ctx, cancel := context.WithCancel(mine)
				go func() { done <- fetch(mine, token) }()
				go func() { left <- fetch(ctx, token) }()
				synctest.Wait()
				if len(done) > 0 {
					t.Fatalf("it did not wait: %v", <-done)
				}
				if name != "described" && name != "query" && name != "filtered" {
					if err := fetch(mine, small); err != nil {
						t.Errorf("a small one: %v", err)
					}
				}
				cancel()
				if err := <-left; fault.CodeOf(err) != fault.Cancelled {
					t.Errorf("cancelled: %v", err)
				}
				other.Done()
				if err := <-done; err != nil {
					t.Error(err)
				}
				last, err := shares.Of("other", 0).Turn(t.Context())
				if err != nil {
					t.Fatal("a turn was not given back:", err)
				}
				last.Done()
			})
		})
	}
}

// slowly is a driver whose operations take long.
type slowly struct{ budget.Driver }

func (s slowly) Put(ctx context.Context, key string, e budget.Entry) error {
	time.Sleep(time.Hour)
	return s.Driver.Put(ctx, key, e)
}

// TestNoTurnWhileTheStoreIsAsked: a store that takes its time keeps no turn from others.
func TestNoTurnWhileTheStoreIsAsked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shares := share.New(1)
		r, err := budget.NewResults(slowly{memory(t)}, &budget.ResultsOptions{TTL: 10 * time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		token := keep(t, r, `[`+strings.Repeat(`{"id":1,"name":"abcdefgh"},`, 100_000)+`{"id":2}]`)
		done := make(chan error, 1)
		go func() {
			fits := func(b []byte) bool { return len(b) < 1000 }
			f := budget.Fetch{Token: token, Mode: budget.ModeFiltered, FilterKeys: []string{"id"}}
			_, err := r.Answer(share.With(t.Context(), shares.Of("me", 0)), "me", f, fits, nil)
			done <- err
		}()
		synctest.Wait()
		if len(done) > 0 {
			t.Fatalf("it kept nothing: %v", <-done)
		}
		turn, err := shares.Of("other", 0).Turn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		turn.Done()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestHeldBeforeItIsRead: whether a value may be held is asked before it is read, of its owner alone; and again for what is made
// of it and kept.
func TestHeldBeforeItIsRead(t *testing.T) {
	t.Parallel()
	r := results(t, nil)
	large := `[` + strings.Repeat(`{"id":1,"name":"abcdefgh"},`, 1000) + `{"id":2}]`
	token := keep(t, r, large)
	var held []int
	most := 1 << 20
	holding := r.Holding(func(n int) error {
		if held = append(held, n); n > most {
			return fault.New(fault.Busy, "too much")
		}
		return nil
	})
	if _, _, err := holding.Value(t.Context(), "you", token); fault.CodeOf(err) != fault.TokenExpired || len(held) > 0 {
		t.Errorf("another's: %v, held %v", err, held)
	}
	fits := func(b []byte) bool { return len(b) < 1000 }
	f := budget.Fetch{Token: token, Mode: budget.ModeFiltered, FilterKeys: []string{"id"}}
	if _, err := holding.Answer(t.Context(), "me", f, fits, nil); err != nil || len(held) != 2 || held[0] != len(large) || held[1] < 1000 || held[1] >= len(large) {
		t.Errorf("%v, held %v of %d", err, held, len(large))
	}
	for most = range []int{0, 1} {
		if _, err := holding.Answer(t.Context(), "me", f, fits, nil); fault.CodeOf(err) != fault.Busy {
			t.Errorf("above what may be held: %v", err)
		}
	}
}
