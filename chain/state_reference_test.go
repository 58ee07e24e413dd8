package chain_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/source/state"
)

// stateWorld is an engine whose chains have state, and what it reads of it for $state.
type stateWorld struct {
	*chain.Engine
	reads []string // the keys of each reading, joined
	seen  []string // the values that runs see
	fails bool     // the function flaky fails
}

func newStateWorld(t *testing.T) *stateWorld {
	t.Helper()
	w := &stateWorld{}
	j := newJournal(t, nil)
	source := state.New(&state.Options{Journal: func() *journal.Journal { return j }})
	flaky := steps.Function{Spec: steps.Spec{Name: "test.flaky", EffectDeclared: true},
		Call: func(_ context.Context, args []byte) ([]byte, error) {
			if w.fails {
				return nil, errors.New("not now")
			}
			return args, nil
		}}
	w.Engine = engineOf(t, append(source.Functions(), flaky), chain.Options{Journal: j,
		ReadState: func(ctx context.Context, caller string, keys []string) ([]byte, error) {
			w.reads = append(w.reads, strings.Join(keys, " "))
			return source.ReadState(ctx, caller, keys)
		},
		StateRead: func(_ context.Context, values []byte) { w.seen = append(w.seen, string(values)) },
	}, false)
	return w
}

func (w *stateWorld) run(t *testing.T, request string) string {
	t.Helper()
	lite := true
	return string(w.Run(t.Context(), []byte(request), &chain.Caller{Override: chain.Override{Lite: &lite}}).JSON)
}

// TestStateReferences: $state has the values of the default space, in references, texts and expressions, of inline chains too.
func TestStateReferences(t *testing.T) {
	t.Parallel()
	w := newStateWorld(t)
	w.run(t, `{"steps":[{"state.set":{"key":"build","value":{"number":1.10,"tags":["a","b"]}}},{"state.set":{"key":"a.b","value":[1,2]}},
		{"state.set":{"key":"other","space":"notes","value":1}}]}`)
	w.reads = nil
	for request, want := range map[string]string{
		`{"steps":[{"test.flaky":{"n":"$state.build.number","t":"${$state.build.tags[1]}!"}}]}`:               `{"n":1.10,"t":"b!"}`,
		`{"steps":[{"expr":"len($state.build.tags) + 1"}]}`:                                                   `3`,
		`{"steps":[{"expr":"1"}],"return":{"all":"$state[\"a.b\"][*]","no":"$state.none ?? 7"}}`:              `{"all":[1,2],"no":7}`,
		`{"steps":[{"expr":"$state?.none ?? 5"}]}`:                                                            `5`,
		`{"steps":[{"chain":{"steps":[{"expr":"$state.build.number"}]}}]}`:                                    `1.10`,
		`{"steps":[{"expr":"$item * 2","forEach":"$state[\"a.b\"]"}]}`:                                        `[2,4]`,
		`{"steps":[{"test.flaky":{"n":1},"when":"$state.build.number > 1","select":"$state.build.tags[0]"}]}`: `"a"`,
		`{"steps":[{"test.flaky":{"script":"echo ${state} ${state.x} $states"}}]}`:                            `{"script":"echo ${state} ${state.x} $states"}`,
	} {
		if got := w.run(t, request); got != want {
			t.Errorf("%s: %s, want %s", request, got, want)
		}
	}
	if i := slices.Index(w.reads, ""); i >= 0 || len(w.reads) != 7 {
		t.Errorf("state was read %d times, as %q; want once for each chain that refers to it", len(w.reads), w.reads)
	}
}

// TestStateFaults: a chain with a reference to state that cannot be filled runs nothing.
func TestStateFaults(t *testing.T) {
	t.Parallel()
	w := newStateWorld(t)
	w.run(t, `{"steps":[{"state.set":{"key":"build","value":1}}]}`)
	for request, want := range map[string]string{
		`{"steps":[{"state.set":{"key":"x","value":1}},{"test.flaky":{"n":"$state.biuld"}}]}`:                `reference_missing at /steps/1/test.flaky/n`,
		`{"steps":[{"expr":"$state.none"}]}`:                                                                 `reference_missing at /steps/0/expr`,
		`{"steps":[{"test.flaky":{"n":"$state"}}]}`:                                                          `bad_reference at /steps/0/test.flaky/n`,
		`{"steps":[{"test.flaky":{"n":"see $state.build"}}]}`:                                                `bad_reference at /steps/0/test.flaky/n`,
		`{"steps":[{"state.set":{"key":"build","value":2},"id":"put"},{"expr":"$state.build"}]}`:             `step 0 (put) changes`,
		`{"steps":[{"chain":{"steps":[{"state.delete":{"key":"build"}}]}}],"return":"$state.build"}`:         `step 0 changes`,
		`{"steps":[{"state.set":{"KEY":"build","value":2}},{"expr":"$state.build"}]}`:                        `step 0 changes`,
		`{"common":{"key":"build"},"steps":[{"state.set":{"value":2}},{"expr":"$state.build"}]}`:             `step 0 changes`,
		`{"common":{"space":"n"},"steps":[{"state.set":{"key":"build","value":2}},{"expr":"$state.build"}]}`: `1`,
		`{"steps":[{"expr":"$state[\"\"]"}]}`:                                                                `bad_reference at /steps/0/expr`,
		`{"steps":[{"state.set":{"key":"build","value":"$state.build"}},{"state.get":{"key":"build"}}]}`:     `{"value":1,"version":`,
		`{"steps":[{"state.set":{"key":"build","space":"notes","value":2}},{"expr":"$state.build"}]}`:        `1`,
		`{"dryRun":true,"steps":[{"test.flaky":{"n":"$state.none"}}]}`:                                       `"plan"`,
	} {
		a := w.Run(t.Context(), []byte(request), nil)
		got := string(a.JSON)
		if a.Error != nil {
			got = a.Error.Error()
			for _, f := range a.Faults {
				got += " " + f.Error()
			}
		}
		if !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", request, got, want)
		}
	}
	if got := w.run(t, `{"steps":[{"state.list":{}}]}`); strings.Contains(got, `"x"`) {
		t.Errorf("a chain with a missing key has run: %s", got)
	}
	none := engineOf(t, nil, chain.Options{}, false)
	if a := none.Run(t.Context(), []byte(`{"steps":[{"expr":"$state.a"}]}`), nil); a.Error == nil || len(a.Faults) != 1 ||
		a.Faults[0].Code != fault.NotSupported {
		t.Errorf("without state: %s", a.JSON)
	}
}

// TestStateIsReadOnce: a run, its resumes, its undo and calls with its key see the values that were there when it began. A resume reads only
// keys that the run has not read, and keeps them.
func TestStateIsReadOnce(t *testing.T) {
	t.Parallel()
	w := newStateWorld(t)
	set := func(key, value string) {
		w.run(t, `{"steps":[{"state.set":{"key":"`+key+`","value":`+value+`}}]}`)
	}
	set("a", `"old"`)
	set("b", `"old"`)
	w.fails = true
	failed := w.run(t, `{"key":"k","steps":[{"test.flaky":{"n":"$state.a","v":"$state.c ?? 1"}}],"return":"$state.a"}`)
	set("a", `"new"`)
	set("c", `2`)
	resume := func(more string) string {
		return w.run(t, `{"resume":`+gjson.Get(failed, "resume").Raw+more+`}`)
	}
	resume("")
	resume(`,"return":["$state.a","$state.b","$state.c ?? 1"]`)
	set("b", `"new"`)
	w.fails = false
	if got := resume(""); got != `["old","old",1]` {
		t.Errorf("the resume sees %s", got)
	}
	if got := w.run(t, `{"key":"k"}`); got != `["old","old",1]` {
		t.Errorf("a call with the key sees %s", got)
	}
	if got := w.run(t, `{"key":"k","dryRun":true}`); !strings.Contains(got, `"reused":[0]`) {
		t.Errorf("a dry run of the resume: %s", got)
	}
	if got := w.run(t, `{"steps":[{"expr":"$state.a"}]}`); got != `"new"` {
		t.Errorf("another run sees %s", got)
	}
	want := []string{"a c", "b", "a"}
	if !slices.Equal(w.reads, want) {
		t.Errorf("state was read as %q, want %q", w.reads, want)
	}
	if last := w.seen[len(w.seen)-2]; last != `{"a":"old","b":"old"}` {
		t.Errorf("the last resume saw %s", last)
	}
}
