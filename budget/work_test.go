package budget_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/admit"
)

// TestLargeValuesNeedSlot: each mode of a fetch, and the description of a result, waits for a slot if the value is large;
// the query has slots of its own; a wait ends with its context; and every slot is released.
func TestLargeValuesNeedSlot(t *testing.T) {
	t.Parallel()
	large := `[` + strings.Repeat(`{"id":1,"name":"abcdefgh"},`, 100_000) + `{"id":2}]`
	for name, f := range map[string]budget.Fetch{
		"summary":   {Mode: "summary"},
		"pages":     {Mode: "paginated"},
		"filtered":  {Mode: "filtered", FilterKeys: []string{"id"}},
		"query":     {Mode: "query", Query: "x"},
		"full":      {Mode: "full"},
		"no mode":   {},
		"described": {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				limiter := admit.New(1, 1)
				withSlots := admit.WithRequest(t.Context(), &admit.Request{Caller: "me", Slots: limiter})
				r := results(t, nil)
				small, token := keep(t, r, `[1]`), keep(t, r, large)
				query := func(ctx context.Context, _ string, value []byte) ([]byte, error) {
					var slot admit.Slot
					defer slot.Release()
					return value, slot.Acquire(ctx)
				}
				fetch := func(ctx context.Context, token string) error {
					if name == "described" {
						_, err := r.ProbeWithin(ctx, "me", []byte(large), within(999))
						return err
					}
					f := f
					f.Token = token
					_, err := r.Answer(ctx, "me", f, nil, query)
					return err
				}
				release, err := limiter.Acquire(t.Context(), "other")
				must(t, err)
				done, cancelled := make(chan error, 1), make(chan error, 1)
				ctx, cancel := context.WithCancel(withSlots)
				go func() { done <- fetch(withSlots, token) }()
				go func() { cancelled <- fetch(ctx, token) }()
				synctest.Wait()
				if len(done) > 0 {
					t.Fatalf("the fetch did not wait for its slot: %v", <-done)
				}
				if name != "described" && name != "query" && name != "filtered" {
					if err := fetch(withSlots, small); err != nil {
						t.Errorf("fetch of a small value: %v", err)
					}
				}
				cancel()
				if err := <-cancelled; fault.CodeOf(err) != fault.Cancelled {
					t.Errorf("cancelled fetch: %v, want cancelled", err)
				}
				release()
				if err := <-done; err != nil {
					t.Error(err)
				}
				releaseAgain, err := limiter.Acquire(t.Context(), "other")
				if err != nil {
					t.Fatal("the slot is still taken:", err)
				}
				releaseAgain()
			})
		})
	}
}

// countingContext counts the calls of Err, and ends after maximum calls.
type countingContext struct {
	context.Context
	n, maximum int
}

func (l *countingContext) Err() error {
	if l.n++; l.n > l.maximum {
		return context.Canceled
	}
	return l.Context.Err()
}

// TestLargeWorkChecksContext: each walk over many values checks its context from time to time, and ends when the context has ended.
func TestLargeWorkChecksContext(t *testing.T) {
	t.Parallel()
	const n, every = 60_000, 1024 // more than 2 MiB, whose tokens are not counted
	long := strings.Repeat("x", 40)
	texts := `[` + strings.Repeat(`"`+long+`",`, n-1) + `1]`
	objects := strings.Repeat(`{"a":1,"b":"`+long+`"},`, n-1) + `{"a":1,"b":"1234567890"}`
	keys := &strings.Builder{}
	for i := range n {
		fmt.Fprintf(keys, `,"%s%d":1`, long, i)
	}
	page := func(number, size int) budget.Fetch {
		return budget.Fetch{Page: number, PageSet: true, PageSize: size, PageSizeSet: true}
	}
	mode := func(m string) budget.Fetch { return budget.Fetch{Mode: m} }
	filter := func(key string) budget.Fetch {
		return budget.Fetch{Mode: "filtered", FilterKeys: []string{key}}
	}
	for name, test := range map[string]struct {
		value string
		fetch budget.Fetch // none: the value is described, not fetched
		walks float64      // the minimum number of walks over the n values
		fails fault.Code
	}{
		"summary":                          {texts, mode("summary"), 1, ""},
		"summary of an object":             {`{"a":` + texts + `}`, mode("summary"), 1, ""},
		"summary of text":                  {`"` + strings.Repeat(long+`\n`, n) + `"`, mode("summary"), 1, ""},
		"summary of many keys":             {`{"a":1` + keys.String() + `}`, mode("summary"), 1, ""},
		"full":                             {texts, mode("full"), 1, fault.LimitExceeded},
		"described":                        {texts, budget.Fetch{}, 1, ""},
		"described as an object":           {`{"a":` + texts + `}`, budget.Fetch{}, 1, ""},
		"first page":                       {texts, page(1, 20), 1, ""},
		"last page":                        {texts, page(n/20, 20), 2, ""},
		"page in an object":                {`{"a":` + texts + `}`, page(1, 20), 1, ""},
		"all on one page":                  {texts, page(1, n), 2, fault.BadPage},
		"all lines on one page":            {`"` + strings.Repeat(long+`\n`, n) + `"`, page(1, n), 3, fault.BadPage},
		"page that does not fit":           {texts, page(n/9000, 9000), 2, fault.BadPage},
		"filtered":                         {`[` + objects + `]`, filter("a"), 5, ""},
		"filtered, absent in every item":   {`[` + texts[1:len(texts)-1] + `,` + objects + `]`, filter("x"), 7, fault.BadRequest},
		"filtered, of many keys":           {`{"a":1` + keys.String() + `}`, filter("a"), 2, ""},
		"filtered, absent among many keys": {`{"z":[{"y":1}]` + keys.String() + `}`, filter("a"), 3, fault.BadRequest},
		"paged, but no list":               {`{"a":"b\nc"` + keys.String() + `}`, page(1, 20), 2, fault.BadMode},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := results(t, nil)
			token := keep(t, r, test.value)
			checks := func(maximum int) (int, fault.Code) {
				ctx := &countingContext{Context: t.Context(), maximum: maximum}
				f := test.fetch
				f.Token = token
				var err error
				if f.Mode == "" && !f.PageSet {
					_, err = r.ProbeWithin(ctx, "me", []byte(test.value), within(999))
				} else {
					_, err = r.Answer(ctx, "me", f, within(999), nil)
				}
				return ctx.n, fault.CodeOf(err)
			}
			all, code := checks(1 << 40)
			if code != test.fails {
				t.Errorf("error code %q, want %q", code, test.fails)
			}
			if minimum := int(test.walks * n / every); all < minimum {
				t.Errorf("the context was checked %d times, want at least %d", all, minimum)
			}
			for _, maximum := range []int{all / 3, all * 9 / 10} {
				n, code := checks(maximum)
				reported := code == test.fails && (code == fault.BadRequest || code == fault.BadMode) // the fault was found before the context ended
				if code != fault.Cancelled && !reported || n > maximum+2 {
					t.Errorf("the work ended with %[2]q after %[1]d checks, want cancelled after %[3]d", n, code, maximum)
				}
			}
		})
	}
}

// slowDriver is a driver with slow operations.
type slowDriver struct{ budget.Driver }

func (s slowDriver) Put(ctx context.Context, key string, e budget.Entry) error {
	time.Sleep(time.Hour)
	return s.Driver.Put(ctx, key, e)
}

// TestNoSlotDuringStore: no slot is held while a slow store is asked.
func TestNoSlotDuringStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limiter := admit.New(1, 1)
		r := resultsOn(t, slowDriver{memory(t)}, &budget.ResultsOptions{TTL: 10 * time.Hour})
		token := keep(t, r, `[`+strings.Repeat(`{"id":1,"name":"abcdefgh"},`, 100_000)+`{"id":2}]`)
		done := make(chan error, 1)
		go func() {
			f := budget.Fetch{Token: token, Mode: "filtered", FilterKeys: []string{"id"}}
			_, err := r.Answer(admit.WithRequest(t.Context(), &admit.Request{Caller: "me", Slots: limiter}), "me", f, within(999), nil)
			done <- err
		}()
		synctest.Wait()
		if len(done) > 0 {
			t.Fatalf("the fetch did not wait for the store: %v", <-done)
		}
		release, err := limiter.Acquire(t.Context(), "other")
		must(t, err)
		release()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestReserveBeforeRead: the reserve function is called before a value is read, for its owner only, and again for values that are made of
// it and stored.
func TestReserveBeforeRead(t *testing.T) {
	t.Parallel()
	r := results(t, nil)
	large := `[` + strings.Repeat(`{"id":1,"name":"abcdefgh"},`, 1000) + `{"id":2}]`
	token := keep(t, r, large)
	var held []int
	maximum := 1 << 20
	holding := r.WithReserve(func(n int) error {
		if held = append(held, n); n > maximum {
			return fault.New(fault.Busy, "too much")
		}
		return nil
	})
	if _, _, err := holding.Value(t.Context(), "you", token); fault.CodeOf(err) != fault.TokenExpired || len(held) > 0 {
		t.Errorf("Value for another owner: %v, reserved %v; want token_expired, and nothing reserved", err, held)
	}
	f := budget.Fetch{Token: token, Mode: "filtered", FilterKeys: []string{"id"}}
	if _, err := holding.Answer(t.Context(), "me", f, within(999), nil); err != nil || len(held) != 2 || held[0] != len(large) ||
		held[1] < 1000 || held[1] >= len(large) {
		t.Errorf("Answer: %v, reserved %v; want no error, and %d bytes, then fewer, but at least 1000", err, held, len(large))
	}
	for maximum = range []int{0, 1} {
		if _, err := holding.Answer(t.Context(), "me", f, within(999), nil); fault.CodeOf(err) != fault.Busy {
			t.Errorf("Answer when reserve refuses %d bytes: %v, want busy", maximum+1, err)
		}
	}
}
