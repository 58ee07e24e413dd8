package chain_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/ladder"
)

// rungs are the rungs of a ladder. The cheaper a function is, the longer it takes.
var rungs = []string{"code.search", "code.card", "code.skeleton", "code.window"}

// ladderKind has a function for each rung, and other.wait, which is on no rung and takes as many seconds as its argument says.
func ladderKind(mode ladder.Mode) kind {
	return kind{functions: rungFunctions, rung: (*steps.Entry).Rung, registry: func(r *steps.Registry) *steps.Registry {
		l, faults := ladder.New(&ladder.Options{Mode: mode, Subject: "id", Rungs: rungs})
		if len(faults) > 0 {
			panic(faults)
		}
		return l.Wrap(r)
	}}
}

func rungFunctions(*world) []steps.Function {
	functions := []steps.Function{{
		Spec: steps.Spec{Name: "other.wait", Effect: steps.Read},
		Call: func(_ context.Context, args []byte) ([]byte, error) {
			time.Sleep(time.Duration(gjson.GetBytes(args, "seconds").Int()) * time.Second)
			return args, nil
		},
	}}
	for i, name := range rungs {
		input := `{"type":"object","properties":{"id":{"type":"string"}},"required":["id"]}`
		if i == 0 {
			input = `{"type":"object","properties":{"query":{"type":"string"}}}`
		}
		functions = append(functions, steps.Function{
			Spec: steps.Spec{Name: name, Effect: steps.Read, Input: json.RawMessage(input)},
			Call: func(_ context.Context, args []byte) ([]byte, error) {
				time.Sleep(time.Duration(len(rungs)-i) * time.Second)
				if i == 0 {
					return []byte(`{"hits":[{"id":"a"},{"id":"b"}]}`), nil
				}
				return args, nil
			},
		})
	}
	return functions
}

// TestLadderSession: chains of one session know the calls of the others; chains without a session do not.
func TestLadderSession(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := ladderKind(ladder.Enforce)
		registry := newRegistry(t, k.functions(nil))
		e := engineOn(t, k.registry(registry), chain.Options{Rung: k.rung}, false)
		card, skeleton := []byte(`{"steps":[{"fn":"code.card","args":{"id":"x"}}]}`),
			[]byte(`{"steps":[{"fn":"code.skeleton","args":{"id":"x"}}]}`)
		client := steps.WithSession(t.Context(), &steps.Session{})
		for _, ctx := range []context.Context{t.Context(), client} {
			if a := e.Run(ctx, card, nil); !a.OK {
				t.Fatalf("card: %s, want success", a.JSON)
			}
			if a := e.Run(ctx, skeleton, nil); a.OK != (ctx == client) {
				t.Errorf("skeleton: %s, want success %t", a.JSON, ctx == client)
			}
		}
		a := e.Call(t.Context(), &chain.Call{Function: "code.skeleton", Args: []byte(`{"id":"x"}`), At: "/params"}, nil)
		if a.OK || a.Error.At != "/params/id" || a.Error.Code != fault.Denied {
			t.Errorf("got %s, want denied at /params/id", a.JSON)
		}
	})
}

// TestLadderLateWarning: a warning that a function gives after its chain has ended is not in the answer.
func TestLadderLateWarning(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		warned := make(chan struct{})
		e := engineOf(t, []steps.Function{{
			Spec: steps.Spec{Name: "code.stubborn", Effect: steps.Read},
			Call: func(ctx context.Context, _ []byte) ([]byte, error) {
				defer close(warned)
				warn := steps.CallbacksOf(ctx).Warn
				warn(fault.New(fault.BadRequest, "in time"))
				time.Sleep(time.Minute)
				warn(fault.New(fault.BadRequest, "too late"))
				return []byte("1"), nil
			},
		}}, chain.Options{Rung: func(*steps.Entry) int { return 0 }}, false)
		a := e.Run(t.Context(), []byte(`{"steps":[{"fn":"code.stubborn","timeoutMs":100}]}`), nil)
		<-warned
		if a.OK || len(a.Warnings) != 1 || a.Warnings[0].Message != "in time" || strings.Contains(string(a.JSON), "late") {
			t.Errorf("warnings %v, want one: %s", a.Warnings, a.JSON)
		}
	})
}
