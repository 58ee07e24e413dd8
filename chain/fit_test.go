package chain_test

import (
	"context"
	"encoding/json"
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

// withoutStore is an engine whose store fails as f says.
func withoutStore(t testing.TB, o chain.Options, f error) *chain.Engine {
	t.Helper()
	results, err := budget.NewResults(failingStore{f}, nil)
	if err != nil {
		t.Fatal(err)
	}
	o.Results = results
	return engineOf(t, writingFunctions(), o, false)
}

// TestUnkept: where a result neither fits nor can be kept, the answer is a failure that tells what has run, how it begins,
// and truly whether it may be sent again.
func TestUnkept(t *testing.T) {
	t.Parallel()
	published := compileSchema(t, chain.AnswerSchema(), "")
	for _, store := range []struct {
		name  string
		fault error
		code  fault.Code
		again bool // the same may pass later
	}{
		{"away", errAway, fault.Unavailable, true},
		{"unreachable", fault.New(fault.Unavailable, "The result store at h:1 cannot be reached: connection refused; try again when it is up."), fault.Unavailable, true},
		{"too small", fault.New(fault.LimitExceeded, "The result has 9 bytes, more than the whole result store may hold. Ask for less of it."), fault.LimitExceeded, false},
		{"none", nil, fault.LimitExceeded, false},
	} {
		e := withoutStore(t, chain.Options{MaxTotalTokens: 400}, store.fault)
		if store.fault == nil {
			e = engineOf(t, writingFunctions(), chain.Options{MaxTotalTokens: 400}, false)
		}
		for _, fn := range []string{"do.write", "do.read"} {
			for _, lite := range []bool{true, false} {
				for _, entry := range []string{"chain", "call"} {
					t.Run(fmt.Sprintf("%s/%s/lite=%t/%s", store.name, fn, lite, entry), func(t *testing.T) {
						t.Parallel()
						var a *chain.Answer
						if entry == "chain" {
							a = e.Run(t.Context(), fmt.Appendf(nil, `{"lite":%t,"steps":[%s,%s]}`, lite, stepOf("do.read", "1", ""),
								stepOf(fn, objects(60), "")), nil)
						} else {
							args, _ := json.Marshal(map[string]string{"answer": objects(60)})
							a = e.Call(t.Context(), &chain.Call{Function: fn, Args: args, Lite: &lite}, nil)
						}
						validate(t, published, a.JSON)
						got := gjson.ParseBytes(a.JSON)
						calls, trace, ran := int64(1), 0, fn+" has run;"
						if entry == "chain" {
							calls, ran = 2, "the chain ran to its end;"
							if !lite {
								trace = 2
							}
						}
						if a.OK || a.Error.Code != store.code || !strings.HasPrefix(got.Get("error.message").Str, ran) ||
							got.Get("usage.calls").Int() != calls {
							t.Fatalf("%s", a.JSON)
						}
						if errors.Is(store.fault, errAway) && !errors.Is(a.Error, errAway) {
							t.Errorf("the cause is lost: %v", a.Error.Err)
						}
						if may := store.again && fn == "do.read"; got.Get("error.retryable").Bool() != may ||
							strings.Contains(got.Get("error.message").Str, "later") != may {
							t.Errorf("it may not be sent again, or it may: %s", a.JSON)
						}
						if fn == "do.write" && !strings.Contains(got.Get("error.message").Str, "do not send it again") {
							t.Errorf("a write looks as if it were to be sent again: %s", a.JSON)
						}
						if strings.Contains(got.Get("error.message").Str, "ry again") {
							t.Errorf("the store's own advice is given: %s", a.JSON)
						}
						if n := len(got.Get("steps").Array()); n != trace {
							t.Errorf("%d steps are told, want %d: %s", n, trace, a.JSON)
						}
						if preview := got.Get("result.preview").Str; len(preview) < 100 || !strings.HasPrefix(objects(60), preview) ||
							got.Get("result.total_size").Int() != int64(len(objects(60))) || got.Get("result.continuation_token").Exists() {
							t.Errorf("%s", a.JSON)
						}
					})
				}
			}
		}
	}
}

// TestNotStoredButWithinBudget: what is a probe by choice is answered whole where it fits and cannot be kept.
func TestNotStoredButWithinBudget(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]chain.Options{"declared": {}, "by size": {ProbeAbove: 50}} {
		e := withoutStore(t, o, errAway)
		for _, lite := range []bool{true, false} {
			fn, answer := "do.heavy", `{"id":1}`
			if name == "by size" {
				fn, answer = "do.read", wide(`"id":1`)
			}
			a := e.Run(t.Context(), fmt.Appendf(nil, `{"lite":%t,"steps":[%s]}`, lite, stepOf(fn, answer, "")), nil)
			got := string(a.JSON)
			if !lite {
				got = gjson.Get(got, "result").Raw
			}
			if !a.OK || got != answer {
				t.Errorf("%s, lite %t: %s", name, lite, a.JSON)
			}
		}
	}
}

// TestUnkeptBesideAFailure: the failure of a step stays the answer's error.
func TestUnkeptBesideAFailure(t *testing.T) {
	t.Parallel()
	e := withoutStore(t, chain.Options{MaxTotalTokens: 400}, errAway)
	a := e.Run(t.Context(), []byte(`{"onError":"continue","steps":[`+stepOf("do.read", "]", "")+`,`+stepOf("do.write", objects(60), "")+`]}`),
		nil)
	got := gjson.ParseBytes(a.JSON)
	if a.OK || got.Get("error.step").Int() != 0 || a.Error.Code != fault.Internal || !strings.HasPrefix(objects(60),
		got.Get("result.preview").Str) || got.Get("result.preview").Str == "" || len(got.Get("steps").Array()) != 2 {
		t.Errorf("%s", a.JSON)
	}
}

// TestUnkeptBesideATrace: how a lost result begins is told rather than which steps have run.
func TestUnkeptBesideATrace(t *testing.T) {
	t.Parallel()
	e := withoutStore(t, chain.Options{MaxTotalTokens: 250}, errAway)
	for _, lite := range []bool{true, false} {
		a := e.Run(t.Context(), fmt.Appendf(nil, `{"lite":%t,"trace":"summary","steps":[%s%s]}`, lite,
			strings.Repeat(stepOf("do.read", "1", "")+",", 20), stepOf("do.read", objects(60), "")), nil)
		if preview := gjson.GetBytes(a.JSON, "result.preview").Str; len(preview) != 200 || gjson.GetBytes(a.JSON, "steps").Exists() {
			t.Errorf("lite %t: %s", lite, a.JSON)
		}
	}
}

// TestUnkeptOthers: neither a fetch nor what a front end hands out is told as something that ran.
func TestUnkeptOthers(t *testing.T) {
	t.Parallel()
	e := withoutStore(t, chain.Options{MaxTotalTokens: 400}, errAway)
	a := e.Deliver(t.Context(), []byte(objects(60)), nil, nil)
	if a.OK || a.Error.Code != fault.Unavailable || !strings.HasPrefix(a.Error.Message, "the result, of about") ||
		gjson.GetBytes(a.JSON, "result.preview").Str == "" {
		t.Errorf("%s", a.JSON)
	}
}

// TestUnkeptWithinTheBudget: whatever the budget, the trace, the label, the length of the chain and of what the store says, the
// answer is whole JSON of the published form within the budget, and tells its own size.
func TestUnkeptWithinTheBudget(t *testing.T) {
	t.Parallel()
	counter, err := budget.NewCounter("", 0)
	if err != nil {
		t.Fatal(err)
	}
	published := compileSchema(t, chain.AnswerSchema(), "")
	rapid.Check(t, func(rt *rapid.T) {
		why := rapid.StringN(1, 400, 800).Draw(rt, "why")
		e := withoutStore(t, chain.Options{ProbeAbove: rapid.SampledFrom([]int{0, 50}).Draw(rt, "probeAbove")},
			fault.New(fault.Unavailable, "%s", why))
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
			rt.Fatalf("%d tokens of %d: %s", n, maximum, a.JSON)
		}
		if a.OK {
			return // it fits
		}
		validate(t, published, a.JSON)
		// Beside a label of a hundred tokens, the smallest budgets have no room for what tells of a kept result.
		code := a.Error.Code == fault.Unavailable || maximum < 300 && a.Error.Code == fault.BudgetTooSmall
		if got := gjson.GetBytes(a.JSON, "usage.tokens").Int(); got != int64(n) || !code {
			rt.Fatalf("%d tokens, told are %d: %s", n, got, a.JSON)
		}
	})
}

// counted counts how often it is asked.
type counted struct {
	failingStore
	asked *int
}

func (c counted) Put(context.Context, string, budget.Entry) error { *c.asked++; return c.fault }

// TestUnkeptIsTriedOnce: a store that is away, which may take its time to say so, is asked once for one answer.
func TestUnkeptIsTriedOnce(t *testing.T) {
	t.Parallel()
	for _, lite := range []bool{true, false} {
		asked := 0
		results, err := budget.NewResults(counted{failingStore{errAway}, &asked}, nil)
		if err != nil {
			t.Fatal(err)
		}
		e := engineOf(t, writingFunctions(), chain.Options{MaxTotalTokens: 400, ProbeAbove: 50, Results: results}, false)
		if a := e.Run(t.Context(), fmt.Appendf(nil, `{"lite":%t,"steps":[%s]}`, lite, stepOf("do.read", objects(60), "")), nil); a.OK ||
			asked != 1 {
			t.Errorf("lite %t: asked %d times: %s", lite, asked, a.JSON)
		}
	}
}
