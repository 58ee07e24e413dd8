package chain_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
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

// climbing is an engine over a ladder of a search, a card, a skeleton and a window; the cheaper a function, the longer it takes.
// other.wait, on no rung, takes as many seconds as it is told to.
func climbing(t *testing.T, mode ladder.Mode) (*chain.Engine, *steps.Registry) {
	t.Helper()
	rungs := []string{"code.search", "code.card", "code.skeleton", "code.window"}
	l, faults := ladder.New(&ladder.Options{Mode: mode, Subject: "id", Rungs: rungs})
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	var functions []steps.Function
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
	functions = append(functions, steps.Function{
		Spec: steps.Spec{Name: "other.wait", Effect: steps.Read},
		Call: func(_ context.Context, args []byte) ([]byte, error) {
			time.Sleep(time.Duration(gjson.GetBytes(args, "seconds").Int()) * time.Second)
			return args, nil
		},
	})
	r, err := steps.NewRegistry(functions, nil)
	if err != nil {
		t.Fatal(err)
	}
	r = l.Wrap(r)
	e, err := chain.New(&chain.Options{Functions: r, Rung: (*steps.Entry).Rung})
	if err != nil {
		t.Fatal(err)
	}
	return e, r
}

// TestLadderOrder: a step waits for the earlier steps of other rungs, whatever the time that they take; those of one rung
// run side by side.
func TestLadderOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, _ := climbing(t, ladder.Enforce)
		began := time.Now()
		for request, want := range map[string]string{
			`{"steps":[{"fn":"code.card","args":{"id":"x"}},{"fn":"code.card","args":{"id":"y"}},{"fn":"code.skeleton","args":{"id":"x"}},{"fn":"code.skeleton","args":{"id":"y"}},{"fn":"code.window","args":{"id":"x"}}]}`: "",
			`{"steps":[{"fn":"code.search"},{"fn":"code.skeleton","args":{"id":"a"}},{"fn":"code.window","args":{"id":"b"}}]}`:                                                                                               "/steps/2/args/id",
			`{"steps":[{"fn":"code.skeleton","args":{"id":"x"}},{"fn":"code.card","args":{"id":"x"}}]}`:                                                                                                                      "/steps/0/args/id",
			`{"steps":[{"chain":{"steps":[{"fn":"code.card","args":{"id":"x"}}]}},{"chain":{"steps":[{"fn":"code.window","args":{"id":"x"}}]}}]}`:                                                                            "",
			`{"steps":[{"fn":"code.card","args":{"id":"x"}},{"chain":{"steps":[{"fn":"code.card","args":{"id":"y"}},{"fn":"code.skeleton","args":{"id":"x"}}]}}]}`:                                                           "",
			`{"steps":[{"fn":"code.search"},{"fn":"code.window","args":{"id":"$0.hits[0].id"}}]}`:                                                                                                                            "/steps/1/args/id",
		} {
			switch a := e.Run(t.Context(), []byte(request), nil); {
			case want == "" && !a.OK:
				t.Errorf("%s: %s", request, a.JSON)
			case want != "" && (a.OK || a.Error.Code != fault.Denied || a.Error.At != want):
				t.Errorf("%s: %s", request, a.JSON)
			}
		}
		// 3+2+1, 4+2 (the window is refused at once), 0 (nothing starts after a refusal), 3+1, 3+3+2, 4: side by side within a
		// rung, one rung after the other.
		if took := time.Since(began); took != 28*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

// TestLadderAsWritten: what is decided of a call does not hang on how long what stands beside it takes: no later step, and no
// other element of a forEach that stands after it, has been called before it.
func TestLadderAsWritten(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ request, refused string }{
		"a lower rung after it": {`{"onError":"continue","steps":[{"fn":"other.wait","args":{"seconds":%d,"id":"x"}},
			{"fn":"code.skeleton","args":{"id":"$0.id"}},{"fn":"code.card","args":{"id":"x"}}]}`, "/steps/1/args/id"},
		"in an inline chain after it": {`{"onError":"continue","steps":[{"fn":"other.wait","args":{"seconds":%d,"id":"x"}},
			{"fn":"code.skeleton","args":{"id":"$0.id"}},{"chain":{"steps":[{"fn":"code.card","args":{"id":"x"}},{"fn":"code.skeleton","args":{"id":"x"}}]}}]}`, "/steps/1/args/id"},
		"in an inline chain before it": {`{"onError":"continue","steps":[{"chain":{"steps":[{"fn":"other.wait","args":{"seconds":%d,"id":"x"}},
			{"fn":"code.skeleton","args":{"id":"$0.id"}}]}},{"fn":"code.card","args":{"id":"x"}}]}`, "/steps/0/chain/steps/1/args/id"},
		"in another inline chain of the same rungs": {`{"onError":"continue","steps":[{"chain":{"steps":[{"fn":"other.wait","args":{"seconds":%d,"id":"x"}},
			{"fn":"code.skeleton","args":{"id":"$0.id"}},{"fn":"code.card","args":{"id":"y"}}]}},{"chain":{"steps":[{"fn":"code.card","args":{"id":"x"}},{"fn":"code.skeleton","args":{"id":"x"}}]}}]}`, "/steps/0/chain/steps/1/args/id"},
		"another element after it": {`{"onError":"continue","input":{"list":[{"seconds":%d,"id":"x","next":"y"},{"seconds":0,"id":"x","next":"x"}]},
			"steps":[{"forEach":"$input.list","concurrency":4,"args":{"of":"$item"},"chain":{"steps":[
				{"fn":"other.wait","args":{"seconds":"$input.of.seconds","id":"$input.of.id"}},
				{"fn":"code.skeleton","args":{"id":"$0.id"}},{"fn":"code.card","args":{"id":"$input.of.next"}}]}}]}`, "/steps/0/chain/steps/1/args/id"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, seconds := range []int{0, 1, 10} {
				synctest.Test(t, func(t *testing.T) {
					e, _ := climbing(t, ladder.Enforce)
					a := e.Run(t.Context(), fmt.Appendf(nil, test.request, seconds), nil)
					if index := gjson.GetBytes(a.JSON, "error.index"); index.Exists() && index.Int() != 0 || a.OK || a.Error.Code != fault.Denied ||
						a.Error.At != test.refused {
						t.Errorf("with %d s: %s", seconds, a.JSON)
					}
				})
			}
		})
	}
}

// TestLadderSideBySide: the elements of a forEach over one rung run side by side.
func TestLadderSideBySide(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, _ := climbing(t, ladder.Enforce)
		began := time.Now()
		a := e.Run(t.Context(), []byte(`{"steps":[{"fn":"code.card","forEach":"['a','b','c']","args":{"id":"$item"}},{"forEach":"['a','b','c']","chain":{"steps":[{"fn":"code.skeleton","args":{"id":"$item"}}]}}]}`), nil)
		if took := time.Since(began); !a.OK || took != 5*time.Second {
			t.Errorf("it took %v: %s", took, a.JSON)
		}
	})
}

// TestLadderView: a function that the caller has not is neither waited for nor named.
func TestLadderView(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, r := climbing(t, ladder.Enforce)
		caller := &chain.Caller{Functions: r.View(func(s *steps.Spec) bool { return s.Name != "code.search" })}
		if a := e.Run(t.Context(), []byte(`{"steps":[{"fn":"code.skeleton","args":{"id":"x"}}]}`), caller); !a.OK {
			t.Errorf("%s", a.JSON)
		}
		a := e.Run(t.Context(), []byte(`{"steps":[{"fn":"code.window","args":{"id":"x"}}]}`), caller)
		if a.OK || a.Error.Code != fault.Denied || strings.Contains(string(a.JSON), "search") {
			t.Errorf("%s", a.JSON)
		}
	})
}

// TestLadderSession: chains of one client know what the others have called, chains without a session do not.
func TestLadderSession(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, _ := climbing(t, ladder.Enforce)
		card, skeleton := []byte(`{"steps":[{"fn":"code.card","args":{"id":"x"}}]}`),
			[]byte(`{"steps":[{"fn":"code.skeleton","args":{"id":"x"}}]}`)
		client := steps.WithSession(t.Context(), &steps.Session{})
		for _, ctx := range []context.Context{t.Context(), client} {
			if a := e.Run(ctx, card, nil); !a.OK {
				t.Fatalf("%s", a.JSON)
			}
			if a := e.Run(ctx, skeleton, nil); a.OK != (ctx == client) {
				t.Errorf("%s", a.JSON)
			}
		}
		a := e.Call(t.Context(), &chain.Call{Function: "code.skeleton", Args: []byte(`{"id":"x"}`), At: "/params"}, nil)
		if a.OK || a.Error.At != "/params/id" || a.Error.Code != fault.Denied {
			t.Errorf("%s", a.JSON)
		}
	})
}

// TestLadderWarnings: a warning names its place, and is given once for all elements of a forEach.
func TestLadderWarnings(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, _ := climbing(t, ladder.Warn)
		request := `{"steps":[{"fn":"code.window","forEach":"$input.list","args":{"id":"$item"}},{"chain":{"steps":[{"fn":"code.skeleton","args":{"id":"z"}}]}},{"fn":"code.card","args":{"id":"q"}}],"input":{"list":["x","y","z2"]}`
		for _, lite := range []bool{false, true} {
			text := request + `}`
			if lite {
				text = request + `,"lite":true}`
			}
			a := e.Run(t.Context(), []byte(text), nil)
			var at []string
			for _, f := range a.Warnings {
				at = append(at, f.At)
			}
			if !a.OK || !slices.Equal(at, []string{"/steps/0/args/id", "/steps/1/chain/steps/0/args/id"}) {
				t.Fatalf("%s: %v", a.JSON, a.Warnings)
			}
			reported := gjson.GetBytes(a.JSON, "warnings.#").Int()
			if lite && reported != 0 || !lite && (reported != 2 || !strings.Contains(gjson.GetBytes(a.JSON, "warnings.0.message").Str,
				"code.card first may be enough")) {
				t.Errorf("lite %t: %s", lite, a.JSON)
			}
		}
	})
}

// TestLadderLateWarning: what a function warns of after its chain has ended is not in the answer.
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
			t.Errorf("%v: %s", a.Warnings, a.JSON)
		}
	})
}
