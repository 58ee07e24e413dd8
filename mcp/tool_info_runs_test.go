package mcp_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/mcp/transport"
	"github.com/onecall-mcp/onecall/steps"
)

// runsOf returns the answer of info with runs.
func runsOf(t *testing.T, c *rawClient) gjson.Result {
	t.Helper()
	answer := c.call(t, "info", `{"runs":true}`)
	text := gjson.Get(answer[strings.IndexByte(answer, '{'):], "result.content.0.text").Str
	if !gjson.Valid(text) {
		t.Fatalf("the answer of info is not JSON: %s", answer)
	}
	return gjson.Parse(text)
}

// TestInfoRuns: callers get their own runs, newest first, and nothing of others' runs. Administrators of all functions also get totals of
// all runs of the last hour.
func TestInfoRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t, allFunctions, unwrapped, nil)
	hidden := adminFunction(w.all)
	callers := knownCallers{"alice": matrixCaller("alice", steps.TierReadWrite, ""), "bob": matrixCaller("bob", steps.TierRead, ""),
		"root": matrixCaller("root", steps.TierAdmin, ""),
		"part": matrixCaller("part", steps.TierAdmin, mixedSource+".*"), "narrowed": {ID: "root", Rights: steps.Rights{Tier: steps.TierRead}}}
	url := w.testServer.serveAs(t, &transport.Access{Callers: callers})
	clients := map[string]*rawClient{}
	for name := range callers {
		clients[name], _ = newRawClientWith(t, url, "chain", statelessVersion, name)
	}
	run := func(name, steps, rest string) {
		t.Helper()
		if answer := clients[name].call(t, "chain", `{"steps":[`+steps+`],`+rest+`}`); !strings.Contains(answer, "usage") {
			t.Fatalf("the chain failed: %s", answer)
		}
	}
	run("alice", `{"expr":"1"},{"expr":"$0 + 1"}`, `"name":"first-of-alice"`)
	run("alice", `{"expr":"1"},{"expr":"fromJSON('x')"}`, `"name":"second-of-alice","key":"mine"`)
	run("bob", `{"expr":"2"},{"expr":"$0 + 1"}`, `"name":"only-of-bob"`)
	run("root", fmt.Sprintf(`{"fn":%q,"args":{%q:"plain","count":1}}`, hidden.Spec.Name, hidden.mark(inArgument))+`,{"expr":"1"}`,
		`"name":"only-of-root"`)

	alice := runsOf(t, clients["alice"])
	if got := alice.Get("runs.#.chain").Raw; got != `["second-of-alice","first-of-alice"]` {
		t.Errorf("alice's runs: %s, want second-of-alice and first-of-alice", alice)
	}
	failed := alice.Get("runs.0")
	if failed.Get("status").Str != "failed" || failed.Get("key").Str != "mine" || failed.Get("code").Str == "" ||
		!strings.HasPrefix(failed.Get("run").Str, "run_") {
		t.Errorf("the failed run: %s, want failed, key mine, a code and an id", failed)
	}
	if answer := clients["bob"].call(t, "chain", `{"resume":"`+failed.Get("run").Str+`"}`); !strings.Contains(answer, "token_expired") {
		t.Errorf("bob resumes the run of alice: got %s, want token_expired", answer)
	}
	for name, foreign := range map[string][]string{"alice": {"bob", "root"}, "bob": {"alice", "root"}, "part": {"alice", "bob", "root"}} {
		report := runsOf(t, clients[name])
		for _, word := range foreign {
			if strings.Contains(report.Raw, word) {
				t.Errorf("the runs of %s show %s: %s", name, word, report)
			}
		}
		if report.Get("lastHour").Exists() || strings.Contains(report.Raw, hidden.Spec.Name) {
			t.Errorf("the runs of %s show totals or a hidden function: %s", name, report)
		}
	}
	if report := runsOf(t, clients["part"]); report.Get("runs").Raw != "[]" {
		t.Errorf("a caller without runs: %s, want none", report)
	}
	hour := runsOf(t, clients["root"]).Get("lastHour")
	if hour.Get("count").Int() != 4 || hour.Get("failures").Int() != 1 || hour.Get("callers.#").Int() != 3 ||
		hour.Get(`functions.#(name="`+hidden.Spec.Name+`").count`).Int() != 1 {
		t.Errorf("the last hour: %s, want 4 runs of 3 callers, 1 failure, 1 of the hidden function", hour)
	}
	if report := runsOf(t, clients["narrowed"]); report.Get("runs.#").Int() != 1 || strings.Contains(report.Raw, hidden.Spec.Name) {
		t.Errorf("a caller that may no longer use the function: %s, want one run, and no hidden function", report)
	}
}
