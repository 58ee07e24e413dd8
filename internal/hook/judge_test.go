package hook_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/internal/hook"
	"github.com/onecall-mcp/onecall/steps"
)

var sources = []string{"fs", "http", "expr", "text", "chain", "github", "my-notes"}

func rules(allow, ask, deny string) *hook.Rules {
	return &hook.Rules{Allow: strings.Fields(allow), Ask: strings.Fields(ask), Deny: strings.Fields(deny), Sources: sources,
		Renamed: map[string]string{"deploy": "my-notes.push", "fs.bye": "github.delete_all"}}
}

// callOf returns a call as Claude Code passes it to a hook.
func callOf(t testing.TB, tool, input string) []byte {
	t.Helper()
	call, err := json.Marshal(map[string]any{
		"session_id": "s", "cwd": "/here", "permission_mode": "default", "hook_event_name": "PreToolUse",
		"tool_name": tool, "tool_input": json.RawMessage(input),
	})
	if err != nil {
		t.Fatal(err)
	}
	return call
}

// quoted returns JSON as a JSON string, as some hosts send arrays and objects.
func quoted(text string) string {
	quoted, _ := json.Marshal(text)
	return string(quoted)
}

// chainOf returns a call of a chain with one step.
func chainOf(t testing.TB, function string) []byte {
	t.Helper()
	step, err := json.Marshal(map[string]string{"fn": function})
	if err != nil {
		t.Fatal(err)
	}
	return callOf(t, "mcp__onecall__chain", `{"steps":[`+string(step)+`]}`)
}

// TestFunctions: the strongest rule wins, and no spelling of a name bypasses it.
func TestFunctions(t *testing.T) {
	t.Parallel()
	r := rules("fs.* github.get_* deploy chain.report", "github.*", "github.delete_* my-notes.w?pe")
	for name, want := range map[string]hook.Decision{
		"fs.cat": hook.Allow, "github.get_issue": hook.Ask, "github.list": hook.Ask, "github.delete_repo": hook.Deny,
		"github.deleteRepo": hook.Deny, "GitHub.delete-repo": hook.Deny, "my_notes.wipe": hook.Deny, "MYNOTES.WIPE": hook.Deny,
		"delete_repo": hook.Deny, "repo": hook.Deny, "other.delete": hook.Deny, "githubdelete_repo": hook.Deny, "": hook.Deny,
		"FS.cat": hook.Ask, "http.get": hook.Ask, "deploy": hook.Allow, "Deploy": hook.Deny, "fs.bye": hook.Deny, "FS.Bye": hook.Deny,
		"chain.report": hook.Allow, "chain.other": hook.Ask, "chain.größe": hook.Ask, "github/list": hook.Deny, "github.a/list": hook.Ask,
		"fs.ctx:get": hook.Deny, "fs.ünï": hook.Deny, "fs..cat": hook.Deny, "fs.cat.": hook.Deny, // may be a tool's own name for any function
	} {
		if v := r.Judge(chainOf(t, name)); v.Decision != want || v.Reason == "" {
			t.Errorf("%q: %+v, want %s", name, v, want)
		}
	}
	all := rules("*", "", "github.delete_*")
	for name, want := range map[string]hook.Decision{"fs.cat": hook.Allow, "github.x": hook.Allow, "cat": hook.Deny,
		"chain.report": hook.Ask} {
		if v := all.Judge(chainOf(t, name)); v.Decision != want {
			t.Errorf("with all allowed, %q: %+v, want %s", name, v, want)
		}
	}
	if v := rules("*", "", "").Judge(chainOf(t, "cat")); v.Decision != hook.Allow {
		t.Errorf("without rules that ask or deny, a short name: %+v, want allow", v)
	}
}

// TestNested: a function is found wherever a chain may call it.
func TestNested(t *testing.T) {
	t.Parallel()
	const harmless, harm = `{"fn":"fs.cat"}`, `{"fn":"github.delete_repo","args":{"name":"x"}}`
	r := rules("*", "", "github.delete_*")
	for name, chain := range map[string]string{
		"a step":                 `{"steps":[` + harmless + `,` + harm + `]}`,
		"forEach":                `{"steps":[{"fn":"github.delete_repo","forEach":"[1,2]","orElse":null}]}`,
		"an undo":                `{"steps":[{"fn":"fs.cat","undo":{"fn":"github.delete_repo"}}]}`,
		"a short step":           `{"steps":[{"github.delete_repo":{"name":"x"}}]}`,
		"a short undo":           `{"steps":[{"fs.cat":{},"undo":{"github.delete_repo":{}}}]}`,
		"a short step as text":   `{"steps":[{"github.delete_repo":` + quoted(`{"name":"x"}`) + `}]}`,
		"short among replaced":   `{"resume":"run_1","replace":{"1":{"github.delete_repo":{}}}}`,
		"an inline chain":        `{"steps":[{"chain":{"steps":[{"chain":{"steps":[` + harmless + `,` + harm + `]}}]}}]}`,
		"an undo in it":          `{"steps":[{"chain":{"steps":[{"fn":"fs.cat","undo":{"fn":"github.delete_repo"}}]}}]}`,
		"a replaced step":        `{"resume":"run_1","replace":{"0":` + harm + `}}`,
		"steps of a resumed run": `{"resume":"run_1","steps":[` + harm + `]}`,
		"an escaped key":         `{"st\u0065ps":[{"f\u006e":"github.delete_repo"}]}`,
		"an escaped name":        `{"steps":[{"fn":"github.\u0064elete_repo"}]}`,
		"a dry run":              `{"dryRun":true,"steps":[` + harm + `]}`,
		"a hoisted field":        `{"site":"x","steps":[` + harm + `]}`,
		"after 3,000 steps":      `{"steps":[` + strings.Repeat(harmless+",", 3000) + harm + `]}`,
		"steps as text":          `{"steps":` + quoted("["+harmless+","+harm+"]") + `}`,
		"a step as text":         `{"steps":[` + harmless + `,` + quoted(harm) + `]}`,
		"an undo as text":        `{"steps":[{"fn":"fs.cat","undo":` + quoted(`{"fn":"github.delete_repo"}`) + `}]}`,
		"an inline chain's text": `{"steps":[{"chain":` + quoted(`{"steps":[`+harm+`]}`) + `}]}`,
		"steps in it as text":    `{"steps":[{"chain":{"steps":` + quoted("["+harm+"]") + `}}]}`,
		"replace as text":        `{"resume":"run_1","replace":` + quoted(`{"0":`+harm+`}`) + `}`,
		"a replaced step's text": `{"resume":"run_1","replace":{"0":` + quoted(harm) + `}}`,
		"beside a token":         `{"continuation_token":"oc1_x","steps":[` + harm + `]}`,
	} {
		for _, tool := range []string{"mcp__onecall__chain", "mcp__onecall__chain_read", "mcp__plugin_onecall_onecall__chain",
			"mcp__my__onecall__chain"} {
			v := r.Judge(callOf(t, tool, chain))
			if v.Decision != hook.Deny || !strings.Contains(v.Reason, "github.delete_repo: the rule github.delete_* denies it") {
				t.Errorf("%s to %s: %+v, want denied with the rule", name, tool, v)
			}
		}
	}
	v := r.Judge(callOf(t, "mcp__onecall__chain", `{"steps":[`+harmless+`,{"chain":{"steps":[`+harmless+`,{"fn":"fs.cat","undo":{"fn":"github.delete_repo"}}]}}]}`))
	if want := "step 1.1 names github.delete_repo: the rule github.delete_* denies it"; v.Reason != want {
		t.Errorf("the reason is %q, want %q", v.Reason, want)
	}
}

// TestChains checks the decisions about whole chains, and about what is not a chain.
func TestChains(t *testing.T) {
	t.Parallel()
	r := rules("fs.* expr.* repos.repo.get repos.repo.delete", "github.*", "github.delete_*")
	for _, one := range []struct {
		name, tool, input string
		want              hook.Decision
	}{
		{"all allowed", "chain", `{"steps":[{"fn":"fs.cat"},{"expr":"$0.size"}]}`, hook.Allow},
		{"one asks", "chain", `{"steps":[{"fn":"fs.cat"},{"fn":"github.get"}]}`, hook.Ask},
		{"one is denied", "chain", `{"steps":[{"fn":"github.get"},{"fn":"github.delete_x"}]}`, hook.Deny},
		{"no function", "chain", `{"steps":[{"expr":"1+1"}]}`, ""},
		{"a fetch", "chain", `{"continuation_token":"oc1_x","mode":"full"}`, ""},
		{"an earlier run", "chain", `{"resume":"run_1"}`, hook.Ask},
		{"an earlier run's undo", "chain", `{"resume":"run_1","undo":true}`, hook.Ask},
		{"an earlier run by its key", "chain", `{"key":"k"}`, hook.Ask},
		{"a key", "chain", `{"key":"k","steps":[{"fn":"fs.cat"}]}`, hook.Allow},
		{"a search", "search", `{"query":"delete"}`, ""},
		{"info", "info", `{}`, ""},
		{"a flat tool that ends as one of onecall's own", "github_delete__info", `{}`, hook.Deny},
		{"no steps", "chain", `{}`, hook.Deny},
		{"null", "chain", `null`, hook.Deny},
		{"steps as text", "chain", `{"steps":"[{\"fn\":\"fs.cat\"}]"}`, hook.Allow},
		{"steps as text that is not JSON", "chain", `{"steps":"[{\"fn\":\"fs.cat\"}"}`, hook.Deny},
		{"a step by its function's name", "chain", `{"steps":[{"github.delete_x":{}}]}`, hook.Deny},
		{"a name that is a number", "chain", `{"steps":[{"fn":1}]}`, hook.Deny},
		{"a key twice", "chain", `{"steps":[{"fn":"fs.cat","fn":"fs.cat"}]}`, hook.Deny},
		{"a flat tool that is denied", "github_delete_repo", `{}`, hook.Deny},
		{"a flat tool by its server's name", "delete_repo", `{}`, hook.Deny},
		{"a flat tool that may be of the source", "create_issue", `{}`, hook.Ask},
		{"a dispatcher", "repos", `{"resource":"repo","action":"list"}`, hook.Ask},
		{"a dispatcher's action and resource as a function's name", "repos", `{"resource":"repo","action":"delete"}`, hook.Deny},
		{"a dispatcher whose action is denied", "repos", `{"resource":"x","action":"delete"}`, hook.Deny},
		{"a dispatcher's action in other spellings", "repos", `{"resource":"RE-PO ","\u0061ction":" delete"}`, hook.Deny},
		{"a dispatcher's call allowed by its exact name", "repos", `{"resource":"repo","action":"get"}`, hook.Allow},
		{"a dispatcher's help", "repos", `{"action":"help"}`, hook.Ask},
		{"a tool without arguments that can be read", "repos", `[]`, hook.Deny},
	} {
		if v := r.Judge(callOf(t, "mcp__onecall__"+one.tool, one.input)); v.Decision != one.want {
			t.Errorf("%s: %+v, want %q", one.name, v, one.want)
		}
	}
	if v := r.Judge(callOf(t, "Bash", `{"command":"ls"}`)); v.Decision != "" {
		t.Errorf("a tool that is not onecall's: %+v, want no decision", v)
	}
	free := rules("*", "", "")
	for _, input := range []string{`{"resume":"run_1"}`, `{"steps":[{"fn":"chain.report"}]}`} {
		if v := free.Judge(callOf(t, "mcp__onecall__chain", input)); v.Decision != hook.Allow {
			t.Errorf("with all allowed, %s: %+v, want allow", input, v)
		}
	}
	if v := free.Judge(callOf(t, "mcp__onecall__repos", `{"action":"delete"}`)); v.Decision != hook.Allow {
		t.Errorf("with all allowed, a dispatcher: %+v, want allow", v)
	}
	for _, call := range []string{``, `{`, `[]`, `null`, `{"tool_name":1}`, `{"tool_input":{}}`} {
		if v := free.Judge([]byte(call)); v.Decision != hook.Deny {
			t.Errorf("%s: %+v, want deny", call, v)
		}
	}
}

// FuzzJudge: a chain that names a denied function is never allowed, wherever the name is, and nothing panics.
func FuzzJudge(f *testing.F) {
	for _, seed := range []string{
		`{"steps":[{"fn":"fs.cat"}]}`, `{"steps":[{"chain":{"steps":[{"fn":"github.delete_repo"}]}}]}`, `{"steps":[{"fn":"fs.cat","undo":{"fn":"github.delete_repo"}}]}`,
		`{"resume":"r","replace":{"a":{"fn":"github.delete_repo"}}}`, `{"continuation_token":"oc1_x"}`, `{"steps":[{"fn":"GitHub.DELETE-repo"}]}`, `{`, `null`,
		`{"action":"delete","resource":"repo"}`,
	} {
		f.Add("mcp__onecall__chain", seed)
	}
	r := rules("*", "", "github.delete_repo")
	f.Fuzz(func(t *testing.T, tool, input string) {
		r.Judge([]byte(input))
		if !json.Valid([]byte(input)) {
			return
		}
		v := r.Judge(callOf(t, tool, input))
		if (v.Decision == hook.Ask || v.Decision == hook.Deny) && v.Reason == "" {
			t.Errorf("decision %s has no reason", v.Decision)
		}
		if tool != "mcp__onecall__chain" {
			return
		}
		var chain map[string]json.RawMessage
		var list []map[string]json.RawMessage
		if json.Unmarshal([]byte(input), &chain) != nil || json.Unmarshal(chain["steps"], &list) != nil {
			return
		}
		for _, step := range list {
			var name string
			if json.Unmarshal(step["fn"], &name) == nil && steps.FoldName(name) == steps.FoldName("github.delete_repo") && v.Decision != hook.Deny {
				t.Errorf("%s: got %+v, want deny", input, v)
			}
		}
	})
}
