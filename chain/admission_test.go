package chain_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/admit"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/source/exprs"
)

// heavyWork has chains that each do one kind of heavy work.
var heavyWork = map[string]string{
	"iterations": `{"steps":[{"fn":"expr.eval","args":{"expression":"len(filter(1..20000, # % 7 == 0))"}}]}`,
	"a range":    `{"steps":[{"fn":"expr.eval","args":{"expression":"len(1..900000)"}}]}`,
	"a condition": `{"steps":[{"fn":"test.text","args":{"bytes":300000}},{"fn":"expr.eval","when":"upper($0) != \"\"",
		"args":{"expression":"1"}}]}`,
	"select":                 `{"steps":[{"fn":"test.text","args":{"bytes":300000},"select":"len(upper($result))"}]}`,
	"many small expressions": `{"steps":[{"fn":"expr.eval","forEach":"1..20","args":{"expression":"1 + 1"}}]}`,
	"references":             `{"steps":[{"fn":"test.text","args":{"bytes":2000000}},{"fn":"test.text","args":{"bytes":1,"as":"$0"}}],"return":"$1"}`,
	"a forEach's element": `{"steps":[{"fn":"test.text","args":{"bytes":2000000}},
		{"fn":"test.text","forEach":"[$0]","args":{"bytes":1,"as":"$item"}}],"return":"$1"}`,
	"return": `{"steps":[{"fn":"test.text","args":{"bytes":2000000}}],"return":["$0"]}`,
	"the input": `{"params":{"a":{}},"input":{"a":"LONG"},"steps":[{"fn":"test.text","args":{"bytes":1}}],
		"return":["$input.a","$input.a","$input.a","$input.a","$input.a","$input.a"]}`,
	"a large request":     `{"steps":[{"fn":"test.text","args":{"bytes":1,"as":"` + strings.Repeat("a", 1<<20) + `"}}]}`,
	"select by reference": `{"steps":[{"fn":"test.text","args":{"bytes":2000000},"select":"$result"}]}`,
	"lookups":             `{"steps":[{"fn":"test.text","args":{"bytes":2000000}},{"fn":"test.text","when":"$0 != nil","args":{"bytes":1}}],"return":"$1"}`,
	"planning":            `{"steps":[` + strings.Repeat(`{"fn":"test.text","args":{"bytes":1}},`, 200) + `{"fn":"test.text","args":{"bytes":1}}]}`,
	"match":               `{"steps":[{"fn":"test.text","args":{"bytes":300000}},{"fn":"text.match","args":{"text":"$0","pattern":"(a+)+b"}}]}`,
	"replace":             `{"steps":[{"fn":"test.text","args":{"bytes":300000}},{"fn":"text.replace","args":{"text":"$0","pattern":"(a+)+b","with":""}}],"return":{"n":"done"}}`,
}

// texts returns the function test.text, which returns a text of the given length.
func texts(t testing.TB) []steps.Function {
	return append(exprs.New().Functions(), steps.Function{
		Spec: steps.Spec{Name: "test.text", Effect: steps.Read, EffectDeclared: true},
		Call: func(_ context.Context, args []byte) ([]byte, error) {
			var n int
			if _, err := fmt.Sscanf(string(args), `{"bytes":%d`, &n); err != nil {
				t.Errorf("%.100s: %v", args, err)
			}
			return []byte(`"` + strings.Repeat("a", n) + `"`), nil
		},
	})
}

// TestHeavyWorkWaitsForItsAdmission: while another caller has the only slot, heavy work waits and light chains run. Heavy work runs when
// the slot is free, and stops waiting when its context ends.
func TestHeavyWorkWaitsForItsAdmission(t *testing.T) {
	t.Parallel()
	for name, heavy := range heavyWork {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				limiter := admit.New(1, 1)
				e := engineOf(t, texts(t), chain.Options{Admission: limiter}, false)
				release, err := limiter.Acquire(t.Context(), "other")
				must(t, err)
				heavy := strings.Replace(heavy, "LONG", strings.Repeat("a", 200_000), 1)
				answers := make(chan *chain.Answer, 1)
				go func() { answers <- e.Run(t.Context(), []byte(heavy), &chain.Caller{ID: "greedy"}) }()
				cancelled := make(chan *chain.Answer, 1)
				ctx, cancel := context.WithCancel(t.Context())
				go func() { cancelled <- e.Run(ctx, []byte(heavy), &chain.Caller{ID: "greedy"}) }()
				synctest.Wait()
				if len(answers) > 0 {
					t.Fatalf("answered without waiting for its slot: %.300s", (<-answers).JSON)
				}
				light := e.Run(t.Context(), []byte(`{"steps":[{"fn":"expr.eval","args":{"expression":"1 + 1"}}]}`), &chain.Caller{ID: "modest"})
				if !light.OK {
					t.Fatalf("light chain: %s, want success", light.JSON)
				}
				cancel()
				if a := <-cancelled; a.OK || a.Error.Code != fault.Cancelled {
					t.Fatalf("answer of the cancelled request: %.300s, want cancelled", a.JSON)
				}
				time.Sleep(20 * time.Second) // the wait is not the expression's time
				release()
				if a := <-answers; !a.OK {
					t.Fatalf("heavy chain after the wait: %.600s, want success", a.JSON)
				}
				if _, err := limiter.Acquire(t.Context(), "other"); err != nil {
					t.Fatal("the slot is still taken:", err)
				}
			})
		})
	}
}

// TestTimeoutWhileWaitingForServer: a call whose time ended while it waited for a slot of a server says so, to any caller.
func TestTimeoutWhileWaitingForServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := admit.NewServer("disk", 1)
		release, f := server.Acquire(t.Context())
		if f != nil {
			t.Fatal(f)
		}
		e := engineOf(t, []steps.Function{{
			Spec: steps.Spec{Name: "disk.read", Effect: steps.Read, EffectDeclared: true},
			Call: func(ctx context.Context, _ []byte) ([]byte, error) {
				release, f := server.Acquire(ctx)
				if f != nil {
					return nil, f
				}
				defer release()
				return []byte("1"), nil
			},
		}}, chain.Options{}, false)
		silent := steps.WithoutCauses(t.Context(), func(context.Context, string,
			*fault.Error) {
			t.Error("the timeout was reported as a failure of the source")
		})
		for _, ctx := range []context.Context{t.Context(), silent} {
			a := e.Run(ctx, []byte(`{"steps":[{"fn":"disk.read","timeoutMs":50}]}`), nil)
			if a.OK || a.Error.Code != fault.Timeout || a.Error.Outcome != fault.NotSent || !strings.Contains(a.Error.Message,
				"the concurrency of disk is limited to 1") {
				t.Errorf("timeout of the step: %s, want timeout, not_sent, and the bound of disk in the message", a.JSON)
			}
			if a := e.Run(ctx, []byte(`{"steps":[{"fn":"disk.read"}],"budget":{"maxDurationMs":50}}`), nil); a.OK ||
				!strings.Contains(string(a.JSON), "budget.maxDurationMs") {
				t.Errorf("timeout of the chain: %s, want budget.maxDurationMs in it", a.JSON)
			}
		}
		release()
		if a := e.Run(t.Context(), []byte(`{"steps":[{"fn":"disk.read","timeoutMs":50}]}`), nil); !a.OK {
			t.Errorf("call with a free slot: %s, want success", a.JSON)
		}
	})
}

// TestRunningBytes: the memory of a caller's running chains is bounded so that some is left for others, a failure is retryable, and all
// memory is released.
func TestRunningBytes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var running sync.WaitGroup
		hold := make(chan struct{})
		functions := append(texts(t), steps.Function{
			Spec: steps.Spec{Name: "test.wait", Effect: steps.Read, EffectDeclared: true},
			Call: func(context.Context, []byte) ([]byte, error) { <-hold; return []byte("1"), nil },
		})
		limiter := admit.New(1, 1)
		e := engineOf(t, functions, chain.Options{Admission: limiter, MaxChainBytes: 10 << 20, MaxRunningBytes: 20 << 20}, false)
		run := func(id string, request string) *chain.Answer {
			return e.Run(t.Context(), []byte(request), &chain.Caller{ID: id})
		}
		const large = `{"steps":[{"fn":"test.text","args":{"bytes":4000000}},{"fn":"test.wait","when":"status(0) == \"ok\""}],"return":"$1"}`
		for _, id := range []string{"a", "a", "b"} {
			running.Go(func() {
				if a := run(id, large); !a.OK {
					t.Errorf("%s: %.300s, want success", id, a.JSON)
				}
			})
			synctest.Wait()
		}
		third := run("a", large)
		if third.OK || third.Error.Code != fault.Busy || !strings.Contains(string(third.JSON), "limits.maxRunningBytes") {
			t.Errorf("third large chain of a caller: %.500s, want busy", third.JSON)
		}
		args := run("b", `{"steps":[{"fn":"test.text","args":{"bytes":2500000}},{"fn":"test.text","args":{"bytes":1,"as":"$0"}}],"return":"$1"}`)
		if args.OK || args.Error.Code != fault.Busy || args.Error.At != "/steps/1" {
			t.Errorf("large arguments: %.300s, want busy", args.JSON)
		}
		for _, id := range []string{"a", "b", "c"} {
			if a := run(id, `{"steps":[{"fn":"test.text","args":{"bytes":60000}}],"return":{"n":"$0"},"budget":{"maxTotalTokens":100000}}`); !a.OK {
				t.Errorf("small chain of %s: %.300s, want success", id, a.JSON)
			}
		}
		close(hold)
		running.Wait()
		if n := limiter.Held(); n != 0 {
			t.Errorf("%d bytes are still held after all chains, want none", n)
		}
	})
}

// TestHeldBytes: results before select, the value of return, stored values that are fetched, and elements of a forEach count as held as
// long as they exist; arguments only until their call has ended.
func TestHeldBytes(t *testing.T) {
	t.Parallel()
	const bytes, all = 3 << 20, 12 << 20
	for name, c := range map[string]struct {
		request string
		minimum int64 // minimum of the bytes held at once; more than all: refused
	}{
		"a result":          {`{"steps":[{"fn":"test.text","args":{"bytes":3145728}}],"return":{"n":1}}`, bytes},
		"after select":      {`{"steps":[{"fn":"test.text","args":{"bytes":3145728},"select":"len($result)"}]}`, bytes},
		"return":            {`{"steps":[{"fn":"test.text","args":{"bytes":1500000}}],"return":["$0","$0"]}`, 4_500_000},
		"return, too large": {`{"steps":[{"fn":"test.text","args":{"bytes":1500000}}],"return":["$0","$0","$0","$0","$0"]}`, all + 1},
		"many arguments":    {`{"steps":[{"fn":"test.text","args":{"bytes":1000000}},{"fn":"test.text","forEach":"1..40","concurrency":1,"args":{"bytes":1,"as":"$0"}}],"return":"$1[0]"}`, 2_000_000},
		"arguments at once": {`{"steps":[{"fn":"test.text","args":{"bytes":4000000}},{"fn":"test.text","args":{"bytes":1,"as":["$0","$0"]}}],"return":"$1"}`, all + 1},
		"elements":          {`{"steps":[{"fn":"test.text","forEach":"1..3","args":{"bytes":1000000}}],"return":{"n":1}}`, 3_000_000},
		"rounds that fail": {`{"steps":[{"fn":"test.text","forEach":"1..20","concurrency":1,"args":{"bytes":1000000},"orElse":0,` +
			`"repeat":{"until":"false","max":2,"collect":"[$result]"}},{"fn":"test.text","args":{"bytes":5000000,"as":"$0"}}],"return":{"n":1}}`, 5_000_000},
		"a result that is not kept": {`{"steps":[{"fn":"test.text","args":{"bytes":7000000},"select":"len($result)"}]}`, all + 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			limiter := admit.New(1, 1)
			e := engineOf(t, texts(t), chain.Options{Admission: limiter, MaxChainBytes: 6 << 20, MaxRunningBytes: all, MaxTotalTokens: 2000}, true)
			maximum := int64(0)
			watched := &chain.Caller{ID: "a", Progress: func(chain.Progress) { maximum = max(maximum, limiter.Held()) }}
			a := e.Run(t.Context(), []byte(c.request), watched)
			if refused := c.minimum > all; refused != (!a.OK && a.Error.Code == fault.Busy) {
				t.Fatalf("got %.300s, want busy: %t", a.JSON, refused)
			} else if !refused && !strings.HasPrefix(name, "return") && maximum < c.minimum-1<<17 {
				t.Errorf("%d bytes were held, want at least %d", maximum, c.minimum)
			}
			if n := limiter.Held(); n != 0 {
				t.Errorf("%d bytes are still held after the chain, want none", n)
			}
		})
	}
}

// TestFetchCountsAsHeld: a stored value counts as held while it is fetched.
func TestFetchCountsAsHeld(t *testing.T) {
	t.Parallel()
	limiter := admit.New(1, 1)
	e := engineOf(t, texts(t), chain.Options{Admission: limiter, MaxChainBytes: 2 << 20, MaxRunningBytes: 8 << 20, MaxTotalTokens: 2000}, true)
	stored := e.Run(t.Context(), []byte(`{"steps":[{"fn":"test.text","args":{"bytes":1000000}}],"lite":true}`), nil)
	token := gjson.GetBytes(stored.JSON, "continuation_token").Str
	page := fmt.Sprintf(`{"continuation_token":%q,"mode":"query","query":"len($result)","lite":true}`, token)
	if a := e.Run(t.Context(), []byte(page), nil); string(a.JSON) != "1000000" {
		t.Fatalf("fetch: %s, want 1000000", a.JSON)
	}
	limiter.Hold("other", 7<<20, 0)
	if a := e.Run(t.Context(), []byte(page), nil); a.OK || a.Error.Code != fault.Busy {
		t.Errorf("fetch without free memory: %s, want busy", a.JSON)
	}
	limiter.Hold("other", -7<<20, 0)
	if limiter.Held() != 0 {
		t.Error("bytes are still held after the fetches")
	}
}

// TestLostResult: if a result is lost and its function is not safe to repeat, the answer never suggests to send the call again.
func TestLostResult(t *testing.T) {
	t.Parallel()
	functions := texts(t)
	functions[len(functions)-1].Spec.Effect = steps.Write
	e := engineOf(t, functions, chain.Options{MaxChainBytes: 2 << 20, MaxRunningBytes: 4 << 20}, false)
	a := e.Run(t.Context(), []byte(`{"steps":[{"fn":"test.text","args":{"bytes":3000000}}]}`), nil)
	if a.OK || a.Error.Code != fault.LimitExceeded || !strings.Contains(a.Error.Message, "has run") ||
		gjson.GetBytes(a.JSON, "error.retryable").Bool() {
		t.Errorf("lost result of a write: %s, want limit_exceeded, not retryable, and a message that it has run", a.JSON)
	}
}

// TestResolvingReferencesIsCancelled: resolving references ends with the time limit, and when the caller has left.
func TestResolvingReferencesIsCancelled(t *testing.T) {
	t.Parallel()
	const n = 300_000
	long := "[" + strings.Repeat("0,", n) + "0]"
	many := "[" + strings.Repeat(`"$input.a[-1]",`, 40_000) + "0]"
	e := engineOf(t, texts(t), chain.Options{MaxDuration: time.Second}, false)
	a := e.Run(t.Context(), fmt.Appendf(nil, `{"params":{"a":{}},"input":{"a":%s},"steps":[{"fn":"test.text","args":{"bytes":1,"as":%s}}]}`,
		long, many), nil)
	if a.OK || a.Error.Code != fault.Timeout {
		t.Errorf("resolving arguments: %.300s, want timeout", a.JSON)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	a = e.Run(ctx, fmt.Appendf(nil, `{"params":{"a":{}},"input":{"a":%s},"steps":[{"fn":"test.text","args":{"bytes":1}}],"return":%s}`, long,
		many), nil)
	if a.OK || a.Error.Code != fault.Timeout {
		t.Errorf("resolving return: %.300s, want timeout", a.JSON)
	}
}

// TestRunningBytesOption: the limit must leave room for one chain of the maximum size.
func TestRunningBytesOption(t *testing.T) {
	t.Parallel()
	registry := newRegistry(t, texts(t))
	for _, c := range []struct {
		chain, running int64
		ok             bool
	}{{0, 0, true}, {1 << 30, 0, true}, {1 << 30, 2 << 30, true}, {1 << 30, 2<<30 - 1, false}, {0, -1, false}} {
		_, err := chain.New(&chain.Options{Functions: registry, MaxChainBytes: c.chain, MaxRunningBytes: c.running})
		if f, _ := fault.As(err); (err == nil) != c.ok || err != nil && f.Code != fault.BadRequest {
			t.Errorf("%+v: %v, want success %t, else bad_request", c, err, c.ok)
		}
	}
}
