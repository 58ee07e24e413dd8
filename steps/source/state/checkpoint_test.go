package state_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/budget/bpe"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/source/state"
)

// TestCheckpoint: a checkpoint has what its caller can read, and nothing else, the last change first.
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
