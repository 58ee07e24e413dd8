package state_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/budget/bpe"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/source/state"
)

// TestCheckpoint: a checkpoint has what its caller can read, and nothing else, the last change of its own first. A session and a shared space
// count their versions for themselves.
func TestCheckpoint(t *testing.T) {
	t.Parallel()
	_, registry := open(t, state.Options{Anonymous: "http", Spaces: map[string][]string{"team": {"token:ann", "token:bob"}},
		AnswerTokens: func() int { return 4000 }})
	ann, bob := as(t.Context(), "token:ann"), as(t.Context(), "token:bob")
	session := steps.WithSession(ann, &steps.Session{})
	for _, args := range []string{`{"key":"object","value":{"id":1,"na\"me":[]}}`, `{"key":"list","value":[{"id":1},{"id":2}]}`,
		`{"key":"empty","value":[]}`, `{"key":"text","value":"secret text","space":"notes"}`} {
		call(ann, registry, "state.set", args)
	}
	call(session, registry, "state.set", `{"key":"here","value":true,"space":"session"}`)
	call(bob, registry, "state.set", `{"key":"ours","value":1,"space":"team"}`)
	call(bob, registry, "state.set", `{"key":"his","value":1}`)
	call(ann, registry, "state.lock", `{"name":"l"}`)
	got := call(session, registry, "state.checkpoint", `{}`)
	var list []string
	for _, k := range gjson.Get(got, "keys").Array() {
		list = append(list, k.Get("space").Str+"/"+k.Get("key").Str+" "+k.Get("shape").Str)
	}
	want := "session/here true; notes/text string; /empty []; /list [2] of {id}; /object {id, na\"me}; team/ours number"
	if strings.Join(list, "; ") != want || gjson.Get(got, "count").Int() != 6 || gjson.Get(got, "answerTokens").Int() != 4000 ||
		len(gjson.Get(got, "runs").Array()) != 5 || strings.Contains(got, "secret text") || strings.Contains(got, "his") {
		t.Errorf("%s\nhas %q, want %q", got, list, want)
	}
	if got := call(as(t.Context(), "http"), registry, "state.checkpoint", `{}`); !strings.HasPrefix(got, "denied") {
		t.Errorf("a caller whom nobody can tell apart gets %s", got)
	}
	anonymous := steps.WithSession(as(t.Context(), "http"), &steps.Session{})
	call(anonymous, registry, "state.set", `{"key":"mine","value":1,"space":"session"}`)
	if got := call(anonymous, registry, "state.checkpoint", `{}`); gjson.Get(got, "keys.#").Int() != 1 || gjson.Get(got, "runs").Exists() {
		t.Errorf("in a session, such a caller gets %s, want its key and no runs", got)
	}
}

// TestCheckpointRights: a checkpoint names the saved chains of earlier runs only to a caller who may still use them.
func TestCheckpointRights(t *testing.T) {
	t.Parallel()
	j, err := journal.New(&journal.Memory{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	source := state.New(&state.Options{Journal: func() *journal.Journal { return j }})
	registry, err := steps.NewRegistry(source.Functions(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"chain.pay", "state.get", "my own words"} {
		run := j.Begin(&journal.Start{Caller: "ann", Chain: name, Text: []byte("{}"), Hash: func() string { return "" }})
		if err := run.EndUnfinished(journal.Failed, "", ""); err != nil {
			t.Fatal(err)
		}
	}
	chains := func(functions *steps.Registry) (list []string) {
		ctx := steps.WithCallbacks(t.Context(), &steps.Callbacks{Caller: "ann", Functions: functions})
		for _, r := range gjson.Get(call(ctx, registry, "state.checkpoint", `{}`), "runs").Array() {
			list = append(list, r.Get("chain").Str)
		}
		slices.Sort(list)
		return list
	}
	if got := chains(registry); !slices.Equal(got, []string{"", "my own words", "state.get"}) {
		t.Errorf("without the right to chain.pay: %q", got)
	}
	saved := source.Functions()[5:6]
	saved[0].Name = "chain.pay"
	allowed, err := steps.NewRegistry(saved, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := chains(allowed); !slices.Equal(got, []string{"chain.pay", "my own words", "state.get"}) {
		t.Errorf("with the right to chain.pay: %q", got)
	}
}

// TestCheckpointSize: a checkpoint has at most 1,000 tokens, whatever the keys.
func TestCheckpointSize(t *testing.T) {
	t.Parallel()
	j, err := journal.New(&journal.Memory{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	count := func(text []byte) int { return bpe.Count(text, -1) }
	registry, err := steps.NewRegistry(state.New(&state.Options{Journal: func() *journal.Journal { return j }, Tokens: count}).Functions(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 10_000 {
		key := fmt.Sprintf("%d%s", i, strings.Repeat("ключ ", i%37))
		if got := call(t.Context(), registry, "state.set", fmt.Sprintf(`{"key":%q,"value":{%q:1}}`, key, key)); !strings.HasPrefix(got, "{") {
			t.Fatal(got)
		}
	}
	got := call(t.Context(), registry, "state.checkpoint", `{}`)
	if tokens := count([]byte(got)); tokens > 1000 || gjson.Get(got, "count").Int() != 10_000 || gjson.Get(got, "keys.#").Int() == 0 {
		t.Errorf("%d tokens: %s", tokens, got)
	}
}
