package chain_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// TestManyFaultsAreReportedInTime: requests of megabytes with a fault in every part are refused without a walk over the whole request for
// each fault, which would take minutes.
func TestManyFaultsAreReportedInTime(t *testing.T) {
	t.Parallel()
	e := engine(t, &world{}, chain.Options{MaxSteps: 100_000})
	for name, piece := range map[string]string{
		"ids":               `{"id":"1","fn":"test.panic"}`,
		"unknown functions": `{"fn":"no.such"}`,
		"references":        `{"fn":"test.get","args":{"value":"$999999"}}`,
		"unknown fields":    `{"fn":"test.panic","fm":1,"arks":{}}`,
		"wrong types":       `7`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			request := []byte(`{"steps":[` + strings.Repeat(piece+",", 1_000_000/len(piece)) + piece + `]}`)
			answer := e.Run(context.Background(), request, nil)
			if answer.OK || answer.Error.Code != fault.Compile || len(answer.Faults) != 1000 {
				t.Fatalf("%d faults, want 1000: %.300s", len(answer.Faults), answer.JSON)
			}
			if more := gjson.GetBytes(answer.JSON, "error.more").Int(); more < 1000 {
				t.Errorf("%d more faults, want at least 1000", more)
			}
		})
	}
	t.Run("input", func(t *testing.T) {
		t.Parallel()
		var params, input bytes.Buffer
		for i := range 2000 {
			fmt.Fprintf(&params, `"param%d":{"default":1},`, i)
		}
		for i := range 60_000 {
			fmt.Fprintf(&input, `"key%d":1,`, i)
		}
		request := fmt.Appendf(nil, `{"params":{%s"z":{"default":1}},"input":{%s"z":1},"steps":[{"fn":"test.panic"}],"dryRun":true}`,
			params.Bytes(), input.Bytes())
		if answer := e.Run(context.Background(), request, nil); !answer.OK || len(answer.Warnings) != 100 {
			t.Errorf("%d warnings, want 100: %.300s", len(answer.Warnings), answer.JSON)
		}
	})
}

// TestConcurrencyLimitsWholeChain: inline chains do not multiply the number of concurrent calls.
func TestConcurrencyLimitsWholeChain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var now, maximum atomic.Int64
		e := engineOf(t, []steps.Function{{
			Spec: steps.Spec{Name: "test.wait", Effect: steps.Read, EffectDeclared: true},
			Call: func(context.Context, []byte) ([]byte, error) {
				n := now.Add(1)
				defer now.Add(-1)
				for m := maximum.Load(); n > m && !maximum.CompareAndSwap(m, n); m = maximum.Load() {
				}
				time.Sleep(time.Millisecond)
				return []byte("1"), nil
			},
		}}, chain.Options{MaxConcurrency: 16}, false)
		inner := `{"fn":"test.wait","forEach":"1..9","concurrency":16}`
		for range 3 {
			inner = `{"forEach":"1..9","concurrency":16,"chain":{"steps":[` + inner + `]}}`
		}
		answer := e.Run(context.Background(), []byte(`{"steps":[`+inner+`,`+inner+`,`+inner+`]}`), nil)
		if !answer.OK || maximum.Load() > 16 || maximum.Load() < 8 {
			t.Errorf("%d concurrent calls, want 8 to 16: %.300s", maximum.Load(), answer.JSON)
		}
	})
}

// TestCounterFactor: a counter with a high factor raises the minimum budget, and an answer within that minimum still has its probe.
func TestCounterFactor(t *testing.T) {
	t.Parallel()
	counter := newCounter(t, 2.5)
	e := engine(t, &world{}, chain.Options{Counter: counter})
	request := `{"budget":{"maxTotalTokens":%d},"steps":[{"fn":"test.items","args":{"n":500}}]}`
	if answer := e.Run(context.Background(), fmt.Appendf(nil, request, 374), nil); answer.OK || answer.Faults[0].Code != fault.BudgetTooSmall {
		t.Errorf("budget of 374 tokens: %s, want budget_too_small", answer.JSON)
	}
	answer := e.Run(context.Background(), fmt.Appendf(nil, request, 375), nil)
	if !answer.OK || gjson.GetBytes(answer.JSON, "result.continuation_token").Str == "" || counter.Count(answer.JSON, -1) > 375 {
		t.Errorf("budget of 375 tokens: %s, want a token and at most 375 tokens", answer.JSON)
	}
}

// TestCallersDeadline: the fault for a deadline of the caller says that it is the caller's.
func TestCallersDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Millisecond)
		defer cancel()
		answer := engine(t, &world{}, chain.Options{}).Run(ctx, []byte(`{"steps":[{"fn":"test.sleep","args":{"ms":500}},{"fn":"test.write"}]}`),
			nil)
		if answer.Error.Code != fault.Timeout || !strings.Contains(answer.Error.Message, "caller's deadline") {
			t.Errorf("got %s, want timeout of the caller's deadline", answer.JSON)
		}
	})
}

// TestTimeoutKeepsBody: what a function answered until it was cut off is in the error that names the limit.
func TestTimeoutKeepsBody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		partial := steps.Function{Spec: steps.Spec{Name: "test.partial", Effect: steps.Read}, Call: func(ctx context.Context, _ []byte) ([]byte, error) {
			<-ctx.Done()
			return nil, &fault.Error{Code: fault.Timeout, Message: "it was stopped", Body: []byte(`{"so":"far"}`)}
		}}
		answer := engineOf(t, []steps.Function{partial}, chain.Options{}, true).Run(context.Background(),
			[]byte(`{"steps":[{"fn":"test.partial","timeoutMs":30}]}`), nil)
		if got := gjson.GetBytes(answer.JSON, "error.body").Raw; got != `{"so":"far"}` || !strings.Contains(answer.Error.Message, "within 30ms") {
			t.Errorf("got %s, want the limit, and the body of the function's own error", answer.JSON)
		}
	})
}
