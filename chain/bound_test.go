package chain_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// TestBounds: what a dry run says of calls, bytes, tokens and time, where nothing was called yet.
func TestBounds(t *testing.T) {
	t.Parallel()
	e := engineOf(t, boundedFunctions(), chain.Options{MaxElements: 50}, false)
	for name, test := range map[string]struct{ request, calls, bytes, tokens, ms string }{
		"one call":              {`"steps":[{"fn":"give.flag"}]`, `[1,1,1]`, `[4,null,5]`, ``, `[0,null,300000]`},
		"no schema":             {`"steps":[{"fn":"give.any"}]`, `[1,1,1]`, `null`, `null`, ``},
		"constant":              {`"steps":[{"fn":"put.flag","timeoutMs":500}]`, `[1,1,1]`, `[4,4,4]`, ``, `[0,null,300000]`},
		"lite":                  {`"lite":true,"steps":[{"fn":"give.flag"}]`, ``, ``, `[1,null,5]`, ``},
		"expression":            {`"lite":true,"steps":[{"expr":"1 + 1"}]`, `[0,0,0]`, `[1,1,1]`, `[1,1,1]`, ``},
		"condition":             {`"steps":[{"fn":"give.flag","when":"1 > 2"}]`, `[0,1,1]`, `[0,null,5]`, ``, ``},
		"elements":              {`"steps":[{"fn":"give.flag","forEach":"['a','b','c']"}]`, `[3,3,3]`, `[12,null,15]`, ``, `[0,null,300000]`},
		"elements of the input": {`"input":{"xs":[1,2]},"steps":[{"fn":"put.flag","forEach":"$input.xs"}]`, `[2,2,2]`, `[8,8,8]`, ``, ``},
		"elements of a result":  {`"steps":[{"fn":"give.list"},{"fn":"give.flag","forEach":"$0"}]`, `[2,null,5]`, ``, ``, ``},
		"of a member":           {`"steps":[{"fn":"give.row"},{"fn":"give.flag","forEach":"$0.tags"}]`, `[1,null,4]`, ``, ``, ``},
		"of another forEach":    {`"steps":[{"fn":"give.any","forEach":"1..4"},{"fn":"give.flag","forEach":"$0"}]`, `[8,8,8]`, ``, ``, ``},
		"of any list":           {`"steps":[{"fn":"give.any"},{"fn":"give.flag","forEach":"$0.xs"}]`, `[1,null,51]`, ``, ``, `[0,null,300000]`},
		"retries and rounds":    {`"steps":[{"fn":"give.flag","retry":{"max":2}},{"fn":"give.flag","repeat":{"until":"true","max":4}}]`, `[2,null,7]`, `[8,null,10]`, ``, ``},
		"a failure's default":   {`"steps":[{"fn":"give.flag","orElse":[]}]`, `[0,1,1]`, `[2,null,5]`, ``, ``},
		"inline": {`"steps":[{"args":{"xs":[1,2,3]},"chain":{"steps":[{"fn":"put.flag","forEach":"$input.xs"}],"return":1}}]`, `[3,3,3]`,
			`[13,13,13]`, ``, ``},
		"now":    {`"steps":[{"fn":"give.flag","forEach":"1..now().Day()"}]`, `[0,null,50]`, ``, ``, ``},
		"return": {`"lite":true,"steps":[{"fn":"put.flag"},{"fn":"give.row"}],"return":{"a":"$0","b":"$1.id","c":"x"}`, ``, ``, `[1,null,43]`, ``},
		"budget": {`"budget":{"maxTotalTokens":300,"maxDurationMs":2000},"steps":[{"fn":"give.any"}]`, ``, `null`, `[1,null,300]`, `[0,null,2000]`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := e.Run(t.Context(), []byte(`{"dryRun":true,`+test.request+`}`), nil)
			bound := gjson.GetBytes(a.JSON, "plan.bound")
			if gjson.ParseBytes(a.JSON).Get("waves").Exists() { // lite: the plan alone
				bound = gjson.GetBytes(a.JSON, "bound")
			}
			for member, want := range map[string]string{"calls": test.calls, "bytes": test.bytes, "tokens": test.tokens, "ms": test.ms} {
				if got := bound.Get(member).Raw; want != "" && got != want {
					t.Errorf("%s %s, want %s: %s", member, got, want, a.JSON)
				}
			}
		})
	}
}

// TestRefusedForBound: a plan is refused before anything runs if it cannot keep within its calls, and, with budget.maxBytes, if it may hold
// more bytes. The fault names the step that costs most.
func TestRefusedForBound(t *testing.T) {
	t.Parallel()
	var called atomic.Bool
	functions := boundedFunctions()
	for i := range functions {
		call := functions[i].Call
		functions[i].Call = func(ctx context.Context, args []byte) ([]byte, error) {
			called.Store(true)
			return call(ctx, args)
		}
	}
	e := engineOf(t, functions, chain.Options{}, false)
	for request, want := range map[string]string{
		`{"budget":{"maxCalls":3},"steps":[{"fn":"give.flag"},{"fn":"give.any","forEach":"1..3"}]}`: "/steps/1 the chain makes at least 4 calls, " +
			"the limit is 3 (budget.maxCalls): split it, or give give.any, which makes most (3), fewer elements",
		`{"budget":{"maxBytes":30},"steps":[{"fn":"give.flag"},{"fn":"give.text"}]}`: "/steps/1 the results may have up to 103 bytes, the limit is " +
			"30 (budget.maxBytes): ask for less of give.text, which gives most (up to 98), keep less by select, or raise the limit",
		`{"budget":{"maxBytes":5},"steps":[{"fn":"give.any"},{"fn":"give.flag","forEach":"[1,2]"}]}`: "/steps/1 the results have at least 9 bytes, " +
			"the limit is 5 (budget.maxBytes): ask for less of give.flag, which gives most (8), or raise the limit",
	} {
		for _, dry := range []bool{false, true} {
			a := e.Run(t.Context(), []byte(request), &chain.Caller{Override: chain.Override{DryRun: dry}})
			if len(a.Faults) != 1 || a.Error.Code != fault.Compile || a.Faults[0].Code != fault.LimitExceeded ||
				a.Faults[0].At+" "+a.Faults[0].Message != want {
				t.Errorf("%s answers %s, want %s", request, a.JSON, want)
			}
		}
	}
	if called.Load() {
		t.Error("a function was called")
	}
	for _, request := range []string{
		`{"budget":{"maxCalls":3},"steps":[{"fn":"give.list"},{"fn":"give.flag","forEach":"$0","when":"false"},{"fn":"give.any"}]}`,
		`{"budget":{"maxBytes":103},"steps":[{"fn":"give.flag"},{"fn":"give.text"}]}`,
		`{"budget":{"maxBytes":30},"steps":[{"fn":"give.any"}]}`,
	} {
		if a := e.Run(t.Context(), []byte(request), nil); !a.OK {
			t.Errorf("%s answers %s, want a success", request, a.JSON)
		}
	}
}

// TestMaxBytes: what no schema bounds is cut off while it runs, and the failure names the limit that holds.
func TestMaxBytes(t *testing.T) {
	t.Parallel()
	e := engineOf(t, boundedFunctions(), chain.Options{MaxChainBytes: 1000}, false)
	for limit, want := range map[int]string{900: "have more than 900 bytes (budget.maxBytes)", 5000: "have more than 1000 bytes (limits.maxChainBytes)"} {
		request := fmt.Sprintf(`{"budget":{"maxBytes":%d},"steps":[{"fn":"give.any","forEach":"1..200"}]}`, limit)
		a := e.Run(t.Context(), []byte(request), nil)
		if a.OK || a.Error.Code != fault.LimitExceeded || !strings.Contains(a.Error.Message, want) {
			t.Errorf("%s answers %s, want %q", request, a.JSON, want)
		}
	}
}

// TestLikely: what a caller's calls took so far is likely for its next ones. Other callers' calls do not show, except to an operator, and
// never those with a caller's own credential.
func TestLikely(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		slow := func(spec steps.Spec) steps.Function {
			spec.Effect = steps.Read
			return steps.Function{Spec: spec, Call: func(_ context.Context, args []byte) ([]byte, error) {
				time.Sleep(time.Duration(gjson.GetBytes(args, "ms").Int()) * time.Millisecond)
				return json.Marshal(strings.Repeat("x", int(gjson.GetBytes(args, "n").Int())))
			}}
		}
		j, err := journal.New(&journal.Memory{}, nil)
		must(t, err)
		defer j.Close()
		e := engineOf(t, []steps.Function{slow(steps.Spec{Name: "a.read"}), slow(steps.Spec{Name: "b.read"}),
			slow(steps.Spec{Name: "own.read", Credential: "digest"})}, chain.Options{Journal: j}, false)
		ann, bob, root := &chain.Caller{ID: "ann"}, &chain.Caller{ID: "bob"}, &chain.Caller{Override: chain.Override{Operator: true}}
		for range 9 {
			for _, name := range []string{"a.read", "own.read"} {
				if a := e.Run(t.Context(), fmt.Appendf(nil, `{"steps":[{"fn":%q,"args":{"ms":100,"n":198}}]}`, name), ann); !a.OK {
					t.Fatal(string(a.JSON))
				}
			}
		}
		if a := e.Run(t.Context(), []byte(`{"steps":[{"fn":"a.read","args":{"ms":1000,"n":198}}]}`), ann); !a.OK {
			t.Fatal(string(a.JSON))
		}
		near := func(what string, got, want int64) {
			t.Helper()
			if got < want*9/10 || got > want*11/10 {
				t.Errorf("%s: %d is likely, want about %d", what, got, want)
			}
		}
		plan := func(c *chain.Caller, steps string) chain.Bound {
			t.Helper()
			a := e.Run(t.Context(), []byte(`{"dryRun":true,"steps":`+steps+`}`), c)
			if !a.OK {
				t.Fatal(string(a.JSON))
			}
			return a.Plan.Bound
		}
		for _, c := range []*chain.Caller{ann, root} {
			b := plan(c, `[{"fn":"a.read"},{"fn":"a.read"},{"fn":"a.read","args":{"of":"$1"}}]`)
			near("bytes of three calls", b.Bytes.Likely, 600)
			near("two beside each other and one after them", b.Millis.Likely, 200)
			if b.Bytes.High != chain.Unknown || b.Tokens.Likely < 100 || b.Tokens.Likely > 300 {
				t.Errorf("the bound is %+v", b)
			}
		}
		near("twenty elements, eight at once", plan(ann, `[{"fn":"a.read","forEach":"1..20"}]`).Millis.Likely, 300)
		for name, b := range map[string]chain.Bound{
			"another caller": plan(bob, `[{"fn":"a.read"}]`), "a function that was not called": plan(ann, `[{"fn":"a.read"},{"fn":"b.read"}]`),
			"a credential": plan(ann, `[{"fn":"own.read"}]`), "a credential, to an operator": plan(root, `[{"fn":"own.read"}]`),
		} {
			if b.Bytes.Known() || b.Millis.Likely != chain.Unknown {
				t.Errorf("%s: %+v, want nothing likely", name, b)
			}
		}
	})
}

// TestBoundWithoutJournal: a journal that cannot be read costs what is likely, and the answer says so.
func TestBoundWithoutJournal(t *testing.T) {
	t.Parallel()
	j := newJournal(t, &daysFail{Driver: &journal.Memory{}})
	e := engineOf(t, boundedFunctions(), chain.Options{Journal: j}, false)
	a := e.Run(t.Context(), []byte(`{"dryRun":true,"steps":[{"fn":"give.flag"}]}`), nil)
	if got := gjson.GetBytes(a.JSON, "warnings.0"); got.Get("code").Str != "unavailable" || gjson.GetBytes(a.JSON, "plan.bound.bytes").Raw != `[4,null,5]` {
		t.Errorf("answered %s, want a warning and what schemas say", a.JSON)
	}
}

// daysFail is a driver that cannot read the sums of days.
type daysFail struct{ journal.Driver }

func (*daysFail) Days(context.Context, *journal.Filter) ([]journal.Day, error) {
	return nil, fault.New(fault.Unavailable, "the database is locked")
}

// TestCheckBounds: a check says what a run takes, if it is asked.
func TestCheckBounds(t *testing.T) {
	t.Parallel()
	e := engineOf(t, boundedFunctions(), chain.Options{}, false)
	text := []byte(`{"params":{"xs":{"type":"array"}},"steps":[{"fn":"put.flag","forEach":"$input.xs"},{"fn":"put.flag"}]}`)
	a := e.Run(t.Context(), text, &chain.Caller{Override: chain.Override{Check: true, Bounds: true}})
	if got := gjson.GetBytes(a.JSON, "plan.bound.calls").Raw; got != `[1,null,100001]` || a.Checked == nil || a.Plan == nil {
		t.Errorf("answered %s, want a bound", a.JSON)
	}
	validate(t, compileSchema(t, chain.AnswerSchema(), ""), a.JSON)
	if a = e.Run(t.Context(), text, &chain.Caller{Override: chain.Override{Check: true}}); gjson.GetBytes(a.JSON, "plan").Exists() || a.Plan != nil {
		t.Errorf("answered %s, want no bound", a.JSON)
	}
}
