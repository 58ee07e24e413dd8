package chain_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/share"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/exprs"
)

// heavyWork are chains each of which works for long at something.
var heavyWork = map[string]string{
	"iterations": `{"steps":[{"fn":"expr.eval","args":{"expression":"len(filter(1..20000, # % 7 == 0))"}}]}`,
	"a range":    `{"steps":[{"fn":"expr.eval","args":{"expression":"len(1..900000)"}}]}`,
	"a condition": `{"steps":[{"fn":"test.text","args":{"bytes":300000}},{"fn":"expr.eval","when":"upper($0) != \"\"",
		"args":{"expression":"1"}}]}`,
	"select":     `{"steps":[{"fn":"test.text","args":{"bytes":300000},"select":"len(upper($result))"}]}`,
	"references": `{"steps":[{"fn":"test.text","args":{"bytes":2000000}},{"fn":"test.text","args":{"bytes":1,"as":"$0"}}],"return":"$1"}`,
	"a forEach's element": `{"steps":[{"fn":"test.text","args":{"bytes":2000000}},
		{"fn":"test.text","forEach":"[$0]","args":{"bytes":1,"as":"$item"}}],"return":"$1"}`,
	"match":   `{"steps":[{"fn":"test.text","args":{"bytes":300000}},{"fn":"text.match","args":{"text":"$0","pattern":"(a+)+b"}}]}`,
	"replace": `{"steps":[{"fn":"test.text","args":{"bytes":300000}},{"fn":"text.replace","args":{"text":"$0","pattern":"(a+)+b","with":""}}],"return":{"n":"done"}}`,
}

// texts is test.text, which gives a text of a length.
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

// TestHeavyWorkWaitsForItsTurn: while another caller has the only turn, heavy work waits, and light chains go on; it runs when
// the turn comes, and ends with its context while it waits.
func TestHeavyWorkWaitsForItsTurn(t *testing.T) {
	t.Parallel()
	for name, heavy := range heavyWork {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				shares := share.New(1)
				e := engineOf(t, texts(t), chain.Options{Shares: shares}, false)
				leave, err := shares.Of("other", 0).Turn(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				answers := make(chan *chain.Answer, 1)
				go func() { answers <- e.Run(t.Context(), []byte(heavy), &chain.Caller{ID: "greedy"}) }()
				cancelled := make(chan *chain.Answer, 1)
				ctx, cancel := context.WithCancel(t.Context())
				go func() { cancelled <- e.Run(ctx, []byte(heavy), &chain.Caller{ID: "greedy"}) }()
				synctest.Wait()
				if len(answers) > 0 {
					t.Fatalf("it did not wait: %.300s", (<-answers).JSON)
				}
				light := e.Run(t.Context(), []byte(`{"steps":[{"fn":"expr.eval","args":{"expression":"1 + 1"}}]}`), &chain.Caller{ID: "modest"})
				if !light.OK {
					t.Fatalf("%s", light.JSON)
				}
				cancel()
				if a := <-cancelled; a.OK || a.Error.Code != fault.Cancelled {
					t.Fatalf("cancelled: %.300s", a.JSON)
				}
				time.Sleep(20 * time.Second) // the wait is not the expression's time
				leave()
				if a := <-answers; !a.OK {
					t.Fatalf("%.600s", a.JSON)
				}
				free, err := shares.Of("other", 0).Turn(t.Context())
				if err != nil {
					t.Fatal("the turn was not given back:", err)
				}
				free()
			})
		})
	}
}

// TestRunningBytes: what a caller's running chains hold is bounded by what is left for others, a failure is told and may be
// tried again, and everything is given back.
func TestRunningBytes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var going sync.WaitGroup
		hold := make(chan struct{})
		functions := append(texts(t), steps.Function{
			Spec: steps.Spec{Name: "test.wait", Effect: steps.Read, EffectDeclared: true},
			Call: func(context.Context, []byte) ([]byte, error) { <-hold; return []byte("1"), nil },
		})
		shares := share.New(1)
		e := engineOf(t, functions, chain.Options{Shares: shares, MaxChainBytes: 10 << 20, MaxRunningBytes: 20 << 20}, false)
		run := func(id string, request string) *chain.Answer {
			return e.Run(t.Context(), []byte(request), &chain.Caller{ID: id})
		}
		const large = `{"steps":[{"fn":"test.text","args":{"bytes":4000000}},{"fn":"test.wait","when":"status(0) == \"ok\""}],"return":"$1"}`
		for _, id := range []string{"a", "a", "b"} {
			going.Go(func() {
				if a := run(id, large); !a.OK {
					t.Errorf("%s: %.300s", id, a.JSON)
				}
			})
			synctest.Wait()
		}
		third := run("a", large)
		if third.OK || third.Error.Code != fault.Busy || !strings.Contains(string(third.JSON), "limits.maxRunningBytes") {
			t.Errorf("a third: %.500s", third.JSON)
		}
		args := run("b", `{"steps":[{"fn":"test.text","args":{"bytes":2500000}},{"fn":"test.text","args":{"bytes":1,"as":"$0"}}],"return":"$1"}`)
		if args.OK || args.Error.Code != fault.Busy || args.Error.At != "/steps/1" {
			t.Errorf("arguments are not held: %.300s", args.JSON)
		}
		for _, id := range []string{"a", "b", "c"} {
			if a := run(id, `{"steps":[{"fn":"test.text","args":{"bytes":60000}}],"return":{"n":"$0"},"budget":{"maxTotalTokens":100000}}`); !a.OK {
				t.Errorf("a small one of %s: %.300s", id, a.JSON)
			}
		}
		close(hold)
		going.Wait()
		if n := shares.Held(); n != 0 {
			t.Errorf("%d bytes are held by nobody", n)
		}
	})
}

// TestRunningBytesOption: the bound must let one chain have what a chain may have.
func TestRunningBytesOption(t *testing.T) {
	t.Parallel()
	registry, err := steps.NewRegistry(texts(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		chain, running int64
		ok             bool
	}{{0, 0, true}, {1 << 30, 0, true}, {1 << 30, 2 << 30, true}, {1 << 30, 2<<30 - 1, false}, {0, -1, false}} {
		_, err := chain.New(&chain.Options{Functions: registry, MaxChainBytes: c.chain, MaxRunningBytes: c.running})
		if f, _ := fault.As(err); (err == nil) != c.ok || err != nil && f.Code != fault.BadRequest {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
