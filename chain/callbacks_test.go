package chain_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// lateSource is a source whose only function appears when become is called.
type lateSource struct {
	mu      sync.Mutex
	name    string
	call    steps.Call // nil: not there yet
	state   steps.Status
	changed func()
}

func (l *lateSource) Functions() []steps.Function {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.call == nil {
		return nil
	}
	return []steps.Function{{Spec: steps.Spec{Name: l.name + ".get", Effect: steps.Read}, Call: l.call}}
}

func (l *lateSource) Status() steps.Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state
}

func (l *lateSource) Watch(changed func()) { l.changed = changed }
func (l *lateSource) Close() error         { return nil }

func (l *lateSource) become(state steps.State, cause *fault.Error, call steps.Call) {
	l.mu.Lock()
	l.state, l.call = steps.Status{State: state, Error: cause}, call
	l.mu.Unlock()
	l.changed()
}

func returnOne(_ context.Context, _ []byte) ([]byte, error) { return []byte(`1`), nil }

func catalogOf(t *testing.T, sources ...*lateSource) *steps.Catalog {
	t.Helper()
	c, err := steps.NewCatalog(nil)
	must(t, err)
	for _, s := range sources {
		must(t, c.Add(s.name, s))
	}
	return c
}

func TestNamesWaitForSourcesThatStart(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, request string
		after         time.Duration // the time that the request takes
		code          fault.Code    // the code of the only fault; "": the chain runs
	}{
		{"an exact name of a ready source does not wait", `{"steps":[{"fn":"ready.get"}]}`, 0, ""},
		{"a name of a starting source waits", `{"steps":[{"fn":"ready.get"},{"chain":{"steps":[{"fn":"late.get"}]}}]}`, time.Second, ""},
		{"a name of a ready source in another spelling does not wait", `{"steps":[{"fn":"READY_get"}]}`, 0, ""},
		{"a name that a ready source lacks does not wait", `{"steps":[{"fn":"ready.gte"}]}`, 0, fault.UnknownFunction},
		{"a suffix has become ambiguous", `{"steps":[{"fn":"get"}]}`, 3 * time.Second, fault.UnknownFunction},
		{"a source that failed is named", `{"steps":[{"fn":"never.get"}]}`, 3 * time.Second, fault.Unavailable},
		{"no longer than the chain may take", `{"steps":[{"fn":"never.get"}],"budget":{"maxDurationMs":500}}`, 500 * time.Millisecond, fault.Unavailable},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ready := &lateSource{name: "ready", call: returnOne, state: steps.Status{State: steps.StateReady}}
				starting := &lateSource{name: "late", state: steps.Status{State: steps.StateStarting}}
				never := &lateSource{name: "never", state: steps.Status{State: steps.StateStarting}}
				e, err := chain.New(&chain.Options{Functions: catalogOf(t, ready, starting, never)})
				must(t, err)
				time.AfterFunc(time.Second, func() { starting.become(steps.StateReady, nil, returnOne) })
				time.AfterFunc(3*time.Second, func() {
					never.become(steps.StateFailed, fault.New(fault.Unavailable, "no such program"), nil)
				})
				started := time.Now()
				a := e.Run(t.Context(), []byte(test.request), nil)
				if took := time.Since(started); took != test.after {
					t.Errorf("answered after %v, want %v", took, test.after)
				}
				switch {
				case test.code == "" && !a.OK:
					t.Errorf("got %s, want success", a.JSON)
				case test.code != "" && (len(a.Faults) != 1 || a.Faults[0].Code != test.code || a.Faults[0].At != "/steps/0/fn"):
					t.Errorf("got %s, want %s", a.JSON, test.code)
				}
				time.Sleep(4 * time.Second)
			})
		})
	}
}

// TestSourcesThatComeBack: a chain whose only faults are sources that become available by themselves is retryable, and its answer says
// when.
func TestSourcesThatComeBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cause := fault.New(fault.Unavailable, "connection refused")
		state := func(name string, s steps.Status) *lateSource { return &lateSource{name: name, state: s} }
		retrying := steps.Status{State: steps.StateRetrying, Error: cause, Retry: time.Now().Add(3500 * time.Millisecond)}
		e, err := chain.New(&chain.Options{Functions: catalogOf(t,
			&lateSource{name: "ready", call: returnOne, state: steps.Status{State: steps.StateReady}},
			state("away", retrying), state("soon", steps.Status{State: steps.StateStarting}),
			state("now", steps.Status{State: steps.StateRetrying, Error: cause, Retry: time.Now().Add(-time.Second)}),
			state("broken", steps.Status{State: steps.StateFailed, Error: cause}),
		)})
		must(t, err)
		const away, soon, again = `the source "away" is retrying, next try in 4 s`, `the source "soon" is starting`,
			"; send the same chain again when it is ready"
		for steps, want := range map[string]struct {
			code    fault.Code
			message string
		}{
			`{"fn":"away.get"}`:                                         {fault.Unavailable, "nothing was run: " + away + again},
			`{"fn":"away.get"},{"fn":"away.put"}`:                       {fault.Unavailable, "nothing was run: " + away + again},
			`{"fn":"away.get"},{"chain":{"steps":[{"fn":"soon.get"}]}}`: {fault.Unavailable, "nothing was run: " + away + ", " + soon + "; send the same chain again when they are ready"},
			`{"fn":"now.get"}`:                                          {fault.Unavailable, `nothing was run: the source "now" is retrying` + again},
			`{"fn":"away.get"},{"fn":"ready.gte"}`:                      {fault.Compile, "2 faults"},
			`{"fn":"away.get"},{"fn":"ready.get","args":{"a":"$7"}}`:    {fault.Compile, "2 faults"},
			`{"fn":"broken.get"}`:                                       {fault.Compile, "1 fault"},
			`{"fn":"away.get"},{"fn":"broken.get"}`:                     {fault.Compile, "2 faults"},
		} {
			a := e.Run(t.Context(), []byte(`{"budget":{"maxDurationMs":10},"steps":[`+steps+`]}`), nil)
			report := gjson.GetBytes(a.JSON, "error")
			if report.Get("code").Str != string(want.code) || report.Get("message").Str != want.message ||
				report.Get("retryable").Bool() != (want.code == fault.Unavailable) || a.Error.Code != want.code {
				t.Errorf("%s: %s, want %s: %s", steps, a.JSON, want.code, want.message)
			}
		}
	})
}

func TestCallbacksOfRunningFunctions(t *testing.T) {
	t.Parallel()
	report := func(ctx context.Context, _ []byte) ([]byte, error) {
		a := steps.CallbacksOf(ctx)
		a.Progress(ctx, 1, 4, "a quarter")
		a.Log(ctx, "warning", "disk", []byte(`{"free":7}`))
		return []byte(`1`), nil
	}
	e := engineOf(t, []steps.Function{{Spec: steps.Spec{Name: "a.get", Effect: steps.Read}, Call: report}}, chain.Options{}, false)
	var reports []string
	a := e.Run(t.Context(), []byte(`{"steps":[{"fn":"a.get"},{"chain":{"steps":[{"fn":"a.get"}]},"args":{"after":"$0"}},
		{"fn":"a.get","when":"$1 == 2"}]}`), &chain.Caller{
		Progress: func(p chain.Progress) {
			reports = append(reports, fmt.Sprintf("%d/%d %d %q %t %v/%v %s", p.Done, p.Total, p.Step, p.Function, p.Ended, p.FunctionDone, p.FunctionTotal, p.Message))
		},
		Log: func(m chain.LogMessage) {
			reports = append(reports, fmt.Sprintf("%d %q %s %s %s", m.Step, m.Function, m.Level, m.Logger, m.Data))
		},
	})
	want := []string{
		`0/3 0 "a.get" false 0/0 `, `0/3 0 "a.get" false 1/4 a quarter`, `0 "a.get" warning disk {"free":7}`, `1/3 0 "a.get" true 0/0 `,
		`1/3 1 "" false 0/0 `, `1/3 1 "" false 1/4 a quarter`, `1 "" warning disk {"free":7}`, `2/3 1 "" true 0/0 `,
		`2/3 2 "a.get" false 0/0 `, `3/3 2 "a.get" true 0/0 `,
	}
	if !a.OK || !slices.Equal(reports, want) {
		t.Errorf("%s reported\n%s\nwant\n%s", a.JSON, strings.Join(reports, "\n"), strings.Join(want, "\n"))
	}
	// Without a front end that wants progress, there is nothing to call.
	silent := func(ctx context.Context, _ []byte) ([]byte, error) {
		return fmt.Appendf(nil, "%t", steps.CallbacksOf(ctx).Progress == nil && steps.CallbacksOf(ctx).Log == nil), nil
	}
	e = engineOf(t, []steps.Function{{Spec: steps.Spec{Name: "a.get"}, Call: silent}}, chain.Options{}, false)
	if a := e.Run(t.Context(), []byte(`{"steps":[{"fn":"a.get"}],"lite":true}`), nil); string(a.JSON) != "true" {
		t.Errorf("the function sees callbacks that no front end wants: %s", a.JSON)
	}
}

func TestStoredValuesBelongToTheCaller(t *testing.T) {
	t.Parallel()
	keep := func(ctx context.Context, _ []byte) ([]byte, error) {
		token, err := steps.CallbacksOf(ctx).Keep(ctx, []byte(`{"data":"AAAA"}`))
		return fmt.Appendf(nil, `{"continuation_token":%q}`, token), err
	}
	e := engineOf(t, []steps.Function{{Spec: steps.Spec{Name: "a.shot"}, Call: keep}}, chain.Options{}, true)
	a := e.Run(t.Context(), []byte(`{"steps":[{"fn":"a.shot"}],"lite":true}`), &chain.Caller{ID: "me"})
	var probe struct {
		Token string `json:"continuation_token"`
	}
	if err := json.Unmarshal(a.JSON, &probe); err != nil || probe.Token == "" {
		t.Fatalf("got no token: %s", a.JSON)
	}
	fetch := fmt.Appendf(nil, `{"continuation_token":%q,"mode":"full","lite":true}`, probe.Token)
	if a := e.Run(t.Context(), fetch, &chain.Caller{ID: "me"}); string(a.JSON) != `{"data":"AAAA"}` {
		t.Errorf(`fetch by the caller: %s, want {"data":"AAAA"}`, a.JSON)
	}
	if a := e.Run(t.Context(), fetch, &chain.Caller{ID: "other"}); a.OK || a.Error.Code != fault.TokenExpired {
		t.Errorf("fetch by another caller: %s, want token_expired", a.JSON)
	}
}

func TestCachedAndOutcomeAreReported(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cached := func(ctx context.Context, _ []byte) ([]byte, error) {
			steps.CallbacksOf(ctx).Cached()
			return []byte(`1`), nil
		}
		loseAnswer := func(context.Context, []byte) ([]byte, error) {
			f := fault.New(fault.Unavailable, "the connection broke")
			f.Outcome = fault.SentUnknown
			return nil, f
		}
		e := engineOf(t, []steps.Function{
			{Spec: steps.Spec{Name: "a.get", Effect: steps.Read}, Call: cached}, {Spec: steps.Spec{Name: "a.set"}, Call: loseAnswer},
			{Spec: steps.Spec{Name: "a.slow", Effect: steps.Read, Timeout: time.Millisecond}, Call: func(ctx context.Context, _ []byte) ([]byte, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}},
			{Spec: steps.Spec{Name: "a.sent"}, Prompt: true, Call: func(ctx context.Context, _ []byte) ([]byte, error) {
				<-ctx.Done()
				return nil, &fault.Error{Code: fault.Timeout, Message: "no answer", Outcome: fault.SentUnknown}
			}},
			{Spec: steps.Spec{Name: "a.stubborn"}, Call: func(context.Context, []byte) ([]byte, error) {
				time.Sleep(300 * time.Millisecond)
				return []byte(`1`), nil
			}},
		}, chain.Options{}, false)
		a := e.Run(t.Context(), []byte(`{"steps":[{"fn":"a.get"},{"fn":"a.get"},{"fn":"a.set"}]}`), nil)
		var answer struct {
			Error struct{ Code, Outcome string }
			Usage struct{ Calls, Cached int }
		}
		if err := json.Unmarshal(a.JSON, &answer); err != nil || answer.Error.Outcome != "sent_unknown" || answer.Usage.Cached != 2 ||
			answer.Usage.Calls != 3 {
			t.Errorf("got %s, want sent_unknown, 3 calls and 2 cached", a.JSON)
		}
		if a := e.Run(t.Context(), []byte(`{"steps":[{"fn":"a.slow"}]}`), nil); a.OK || a.Error.Code != fault.Timeout || a.Error.Outcome != "" {
			t.Errorf("timeout of the function itself: %s, want timeout without an outcome", a.JSON)
		}
		for fn, request := range map[string]string{
			"a source that reports the outcome": `{"steps":[{"fn":"a.sent","timeoutMs":1}]}`,
			"a stubborn write":                  `{"steps":[{"fn":"a.stubborn"}],"budget":{"maxDurationMs":1}}`,
		} {
			if a := e.Run(t.Context(), []byte(request), nil); a.OK || a.Error.Code != fault.Timeout || a.Error.Outcome != fault.SentUnknown {
				t.Errorf("%s: %s, want timeout and sent_unknown", fn, a.JSON)
			}
		}
		time.Sleep(time.Second) // the stubborn call ends, so that the bubble can end
	})
}
