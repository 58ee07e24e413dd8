package chain_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"
	"pgregory.net/rapid"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
)

var errAway = errors.New("the server of results is away")

// failures has the failures of the stores of the transcripts.
var failures = map[string]error{
	"away":        errAway,
	"unreachable": fault.New(fault.Unavailable, "The result store at h:1 cannot be reached: connection refused; try again when it is up."),
	"too-small":   fault.New(fault.LimitExceeded, "The result has 9 bytes, more than the whole result store may hold. Ask for less of it."),
}

// failingStore is a store whose server cannot be reached.
type failingStore struct{ fault error }

func (a failingStore) Put(context.Context, string, budget.Entry) error { return a.fault }
func (a failingStore) Get(context.Context, string, budget.Admit) (budget.Entry, error) {
	return budget.Entry{}, a.fault
}
func (a failingStore) Touch(context.Context, string, time.Time) error { return a.fault }
func (a failingStore) Delete(context.Context, string) error           { return a.fault }
func (failingStore) SetMaxBytes(int64) error                          { return nil }
func (failingStore) Close() error                                     { return nil }

// withoutStore returns an engine whose store fails with f.
func withoutStore(t testing.TB, o chain.Options, f error) *chain.Engine {
	t.Helper()
	results, err := budget.NewResults(failingStore{f}, nil)
	must(t, err)
	o.Results = results
	return engineOf(t, writingFunctions(), o, false)
}

// TestUnkeptOthers: the fault for a fetch, or for a value that a front end delivers, does not say that something ran.
func TestUnkeptOthers(t *testing.T) {
	t.Parallel()
	e := withoutStore(t, chain.Options{MaxTotalTokens: 400}, errAway)
	if a := e.Run(t.Context(), []byte(`{"steps":[`+stepOf("do.read", objects(60), "")+`]}`), nil); !errors.Is(a.Error, errAway) {
		t.Errorf("the fault wraps %v, want %v", a.Error.Err, errAway)
	}
	a := e.Deliver(t.Context(), []byte(objects(60)), nil, nil)
	if a.OK || a.Error.Code != fault.Unavailable || !strings.HasPrefix(a.Error.Message, "the result, of about") ||
		gjson.GetBytes(a.JSON, "result.preview").Str == "" {
		t.Errorf("delivery: %s, want unavailable, the size of the result and a preview", a.JSON)
	}
}

// TestUnkeptWithinTheBudget: with any budget, trace, label, chain and message of the store, the answer is complete JSON of the published
// schema within the budget, and reports its own size.
func TestUnkeptWithinTheBudget(t *testing.T) {
	t.Parallel()
	counter := newCounter(t, 0)
	published := compileSchema(t, chain.AnswerSchema(), "")
	rapid.Check(t, func(rt *rapid.T) {
		message := rapid.StringN(1, 400, 800).Draw(rt, "why")
		e := withoutStore(t, chain.Options{ProbeAbove: rapid.SampledFrom([]int{0, 50}).Draw(rt, "probeAbove")},
			fault.New(fault.Unavailable, "%s", message))
		maximum := rapid.IntRange(150, 900).Draw(rt, "budget")
		trace := rapid.SampledFrom([]string{"none", "summary", "full"}).Draw(rt, "trace")
		fn := rapid.SampledFrom([]string{"do.write", "do.read", "do.heavy", "do.lightWrite"}).Draw(rt, "fn")
		answer := rapid.SampledFrom([]string{objects(9), objects(60), `"` + strings.Repeat("é𓀀", 3000) + `"`}).Draw(rt, "answer")
		before := strings.Repeat(stepOf("do.read", "1", "")+",", rapid.IntRange(0, 30).Draw(rt, "steps"))
		request := fmt.Sprintf(`{"lite":%t,"trace":%q,"verify":true,"budget":{"maxTotalTokens":%d},"steps":[%s%s]}`,
			rapid.Bool().Draw(rt, "lite"), trace, maximum, before, stepOf(fn, answer, ""))
		caller := &chain.Caller{Label: rapid.StringN(0, 50, 100).Draw(rt, "label")}
		if rapid.Bool().Draw(rt, "warned") {
			caller.Warnings = []*fault.Error{fault.New(fault.LimitExceeded, "the answers of this session have used up its tokens")}
		}
		a := e.Run(context.Background(), []byte(request), caller)
		n := counter.Count(a.JSON, -1)
		if n > maximum {
			rt.Fatalf("the answer costs %d tokens, want at most %d: %s", n, maximum, a.JSON)
		}
		if a.OK {
			return // it fits
		}
		validate(t, published, a.JSON)
		// With a label of a hundred tokens, the smallest budgets have no room for the message about the lost result.
		code := a.Error.Code == fault.Unavailable || maximum < 300 && a.Error.Code == fault.BudgetTooSmall
		if got := gjson.GetBytes(a.JSON, "usage.tokens").Int(); got != int64(n) || !code {
			rt.Fatalf("the answer costs %d tokens and reports %d, want the same, and unavailable: %s", n, got, a.JSON)
		}
	})
}

// countingStore counts its calls.
type countingStore struct {
	failingStore
	puts *int
}

func (c countingStore) Put(context.Context, string, budget.Entry) error { *c.puts++; return c.fault }

// TestUnkeptIsTriedOnce: a store that fails, perhaps slowly, is asked only once for an answer.
func TestUnkeptIsTriedOnce(t *testing.T) {
	t.Parallel()
	for _, lite := range []bool{true, false} {
		puts := 0
		results, err := budget.NewResults(countingStore{failingStore{errAway}, &puts}, nil)
		must(t, err)
		e := engineOf(t, writingFunctions(), chain.Options{MaxTotalTokens: 400, ProbeAbove: 50, Results: results}, false)
		if a := e.Run(t.Context(), fmt.Appendf(nil, `{"lite":%t,"steps":[%s]}`, lite, stepOf("do.read", objects(60), "")), nil); a.OK ||
			puts != 1 {
			t.Errorf("lite %t: %d writes to the store, want 1: %s", lite, puts, a.JSON)
		}
	}
}
