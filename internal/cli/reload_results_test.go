package cli

import (
	"errors"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/budget/memstore"
)

// bounded is a driver that knows its bound, and how often it was opened and closed.
type bounded struct {
	budget.Driver
	most           int64
	opened, closed int
}

func (b *bounded) SetMaxBytes(maxBytes int64) error {
	b.most = maxBytes
	return b.Driver.SetMaxBytes(maxBytes)
}

func (b *bounded) Close() error {
	b.closed++
	return b.Driver.Close()
}

// TestSharedStore compares the store of configurations that come and go with a model of it: one driver, opened at its first use
// and not before, holds as much as the largest bound of those who use it says, and is closed by the last.
func TestSharedStore(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		shelf := &shelf{}
		var driver *bounded
		var lent []*lentDriver
		bounds := map[*lentDriver]int64{}
		t.Repeat(map[string]func(*rapid.T){
			"take": func(t *rapid.T) {
				loan, err := take(shelf, "results", func() (*sharedStore, error) {
					driver = &bounded{}
					return newSharedStore(func(maxBytes int64) (budget.Driver, error) {
						store, err := memstore.New(nil)
						driver.Driver, driver.most = store, maxBytes
						driver.opened++
						return driver, err
					}), nil
				})
				if err != nil {
					t.Fatal(err)
				}
				one := &lentDriver{loan.value, loan}
				most := rapid.SampledFrom([]int64{1000, 5000, 1 << 30, math.MaxInt64}).Draw(t, "most")
				loan.value.bound(one, most)
				lent, bounds[one] = append(lent, one), most
			},
			"use": func(t *rapid.T) {
				if len(lent) == 0 {
					t.Skip("nobody uses it")
				}
				one := rapid.SampledFrom(lent).Draw(t, "user")
				if _, err := one.Get(t.Context(), "none", nil); !errors.Is(err, budget.ErrNotFound) {
					t.Fatal(err)
				}
				if driver.opened != 1 {
					t.Fatalf("it was opened %d times", driver.opened)
				}
			},
			"give back": func(t *rapid.T) {
				if len(lent) == 0 {
					t.Skip("nobody uses it")
				}
				i := rapid.IntRange(0, len(lent)-1).Draw(t, "user")
				for range rapid.IntRange(1, 2).Draw(t, "times") {
					if err := lent[i].Close(); err != nil {
						t.Fatal(err)
					}
				}
				delete(bounds, lent[i])
				lent = append(lent[:i], lent[i+1:]...)
			},
			"": func(t *rapid.T) {
				if driver == nil || driver.opened == 0 {
					return
				}
				most := int64(0)
				for _, one := range bounds {
					most = max(most, one)
				}
				if closed := len(lent) == 0; driver.closed != map[bool]int{true: 1}[closed] || !closed && driver.most != most {
					t.Fatalf("of %d users it holds %d, want %d, and was closed %d times", len(lent), driver.most, most, driver.closed)
				}
			},
		})
	})
}
