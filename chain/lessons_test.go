package chain_test

import (
	"context"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// TestLessons holds what was measured to go wrong in other systems, and what no other test of this package covers.
func TestLessons(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		request string
		answer  string // of a success, in its lite form
		calls   int
	}{
		"intermediates are not charged, however large": {
			`{"lite":true,"budget":{"maxTotalTokens":150},"steps":[{"fn":"test.items","args":{"n":20000}},{"fn":"test.get","args":{"value":"$0"}}],"return":"$1.total"}`, `20000`, 2},
		"a chain of three costs what its last result costs": {
			`{"lite":true,"steps":[{"fn":"test.items","args":{"n":9}},{"fn":"test.get","args":{"value":"$0.items[3]"}},{"fn":"test.card.get","args":{"cardId":"$1.name"}}]}`,
			`{"card":{"id":"item 3","size":7}}`, 3},
		"the word error in a result is only a word": {
			`{"lite":true,"steps":[{"fn":"test.get","args":{"value":"Error: \"error\": true, isError"}}]}`, `"Error: \"error\": true, isError"`, 1},
		"lite takes nothing away from data": {
			`{"lite":true,"steps":[{"fn":"test.get","args":{"value":{"hints":["use action"],"lite":"false","ok":false}}}]}`,
			`{"hints":["use action"],"lite":"false","ok":false}`, 1},
		"arguments do not change which function runs": {
			`{"lite":true,"steps":[{"fn":"test.get","args":{"value":{"fn":"test.write","action":"test.write","chain":"$$0"}}},{"fn":"test.echo","args":{"fn":"test.write","action":"delete","x":"$0"}}]}`,
			`{"fn":"test.write","action":"delete","x":{"fn":"test.write","action":"test.write","chain":"$0"}}`, 2},
		"a dollar in a text is a dollar": {
			`{"lite":true,"steps":[{"fn":"test.get","args":{"value":["price $5","s/(x)/$1/","${HOME}/bin","US$0.50"]}}]}`,
			`["price $5","s/(x)/$1/","${HOME}/bin","US$0.50"]`, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &world{}
			answer := engine(t, w, chain.Options{}).Run(context.Background(), []byte(test.request), nil)
			if string(answer.JSON) != test.answer || len(w.seen()) != test.calls {
				t.Errorf("%d calls, answered\n%s\nwant %d calls and\n%s", len(w.seen()), answer.JSON, test.calls, test.answer)
			}
		})
	}
}

// TestHiddenFunctions: a caller learns nothing of what it may not use.
func TestHiddenFunctions(t *testing.T) {
	t.Parallel()
	w := &world{}
	all := engine(t, w, chain.Options{})
	view := registryOf(t, w).View(func(s *steps.Spec) bool { return s.Name != "test.write" })
	for _, request := range []string{
		`{"steps":[{"fn":"test.write"}]}`, `{"steps":[{"fn":"test.wrte"}]}`, `{"steps":[{"fn":"write"}]}`, `{"steps":[{"fn":"testWrite","dryRun":1}]}`,
		`{"steps":[{"chain":{"steps":[{"fn":"test.write","args":{"valu":1}}]}}]}`, `{"dryRun":true,"steps":[{"fn":"test_write","forEach":"[1]"}]}`,
	} {
		answer := all.Run(context.Background(), []byte(request), &chain.Caller{Functions: view})
		if answer.OK || answer.Error.Code != fault.Compile || strings.Contains(string(answer.JSON), "test.write\",") &&
			!strings.Contains(request, "test.write") {
			t.Errorf("%s: %s", request, answer.JSON)
		}
		for _, word := range []string{"repoId", `nearest":["test.write`, "did you mean test.write"} {
			if strings.Contains(string(answer.JSON), word) {
				t.Errorf("%s tells %q: %s", request, word, answer.JSON)
			}
		}
	}
	if calls := w.seen(); len(calls) > 0 {
		t.Errorf("reached %v", calls)
	}
}

// TestTokensBelongToTheirCaller: another caller's token reads as an expired one.
func TestTokensBelongToTheirCaller(t *testing.T) {
	t.Parallel()
	e := engine(t, &world{}, chain.Options{MaxTotalTokens: budget.MinTokens, Lite: true})
	answer := e.Run(context.Background(), []byte(`{"steps":[{"fn":"test.items","args":{"n":500}}]}`), &chain.Caller{ID: "ada"})
	token := find(answer.JSON, true, "continuation_token").Str
	for caller, want := range map[string]fault.Code{"ada": "", "bob": fault.TokenExpired, "": fault.TokenExpired} {
		answer := e.Run(context.Background(), []byte(`{"continuation_token":"`+token+`","mode":"summary"}`), &chain.Caller{ID: caller})
		if got := codeOf(answer); got != want {
			t.Errorf("caller %q: %q, want %q: %s", caller, got, want, answer.JSON)
		}
	}
}

func codeOf(a *chain.Answer) fault.Code {
	if a.Error == nil {
		return ""
	}
	return a.Error.Code
}
