package console_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/console"
	"github.com/onecall-mcp/onecall/steps"
)

// source is a source of functions for tests.
type source struct {
	functions []steps.Function
	status    steps.Status // the zero status: ready
}

func (s *source) Functions() []steps.Function { return s.functions }
func (s *source) Close() error                { return nil }
func (s *source) Watch(func())                {}
func (s *source) Status() steps.Status        { return s.status }

func (s *site) add(t *testing.T, name string, status steps.Status, functions ...steps.Function) {
	t.Helper()
	if err := s.catalog.Add(name, &source{functions, status}); err != nil {
		t.Fatal(err)
	}
}

// returning is a function that reads and answers result.
func returning(name, result string) steps.Function {
	return steps.Function{Spec: steps.Spec{Name: name, Description: "Gives what " + name + " has.", Effect: steps.Read, EffectDeclared: true},
		Call: func(context.Context, []byte) ([]byte, error) { return []byte(result), nil }}
}

var ready = steps.Status{State: steps.StateReady}

const hostile = `<script>alert(1)</script>"'` + "\u202e" + `{{.}}`

// secretStore adds a function for all and one that only administrators may use, with hostile texts.
func (s *site) secretStore(t *testing.T) {
	t.Helper()
	open, secret := returning("store.list", `[1,2]`), returning("store.wipe", `true`)
	open.Description = hostile
	open.Input = json.RawMessage(`{"type":"object","properties":{"word":{"type":"string","description":"` +
		strings.ReplaceAll(hostile, `"`, `\"`) + `"}},"required":["word"]}`)
	secret.Effect, secret.Tier = steps.Destroy, steps.TierAdmin
	s.add(t, "store", ready, open, secret)
}

func reader(id string) *console.Viewer {
	return &console.Viewer{Caller: steps.Caller{ID: id, Rights: steps.Rights{Tier: steps.TierRead}}}
}

// contains fails unless a page has each of the texts, and none of those after "".
func contains(t *testing.T, page string, texts ...string) {
	t.Helper()
	want := true
	for _, text := range texts {
		if text == "" {
			want = false
		} else if strings.Contains(page, text) != want {
			t.Errorf("the page has %q: %t, want %t:\n%s", text, !want, want, page)
		}
	}
}

// TestFunctions: the pages of functions show what the viewer may use, and nothing of other functions, callers or causes.
func TestFunctions(t *testing.T) {
	t.Parallel()
	admin := person("admin")
	admin.All = true
	s := newSite(t, map[string]*console.Viewer{"ann": reader("token:ann"), "admin": admin})
	s.secretStore(t)
	s.add(t, "wiki", steps.Status{State: steps.StateRetrying, Error: fault.New(fault.Unavailable, "the program wiki-server crashed")})
	s.add(t, "mail", steps.Status{State: steps.StateStarting})
	for id, times := range map[string]int{"token:ann": 2, "token:bob": 40} {
		for range times {
			a := s.engine.Run(t.Context(), []byte(`{"steps":[{"fn":"store.list","args":{"word":"a"}}]}`), &chain.Caller{ID: id})
			if !a.OK {
				t.Fatal(string(a.JSON))
			}
		}
	}
	ann, boss := s.browser(t, "ann"), s.browser(t, "admin")
	_, list := ann.get("functions")
	contains(t, list, "store.list", `<td class="n">2</td>`, "<strong>wiki</strong> cannot be used now (retrying)", "<strong>mail</strong> is starting", "load delay:2s",
		"&lt;script&gt;", "", "store.wipe", ">42<", ">40<", "wiki-server", "<script>alert", "\u202e")
	_, list = boss.get("functions")
	contains(t, list, "store.list", "store.wipe", `<td class="n">42</td>`, "wiki-server crashed")
	_, list = boss.get("functions?q=wipe")
	contains(t, list, "store.wipe", "", "store.list")
	_, list = boss.get("functions?source=wiki")
	contains(t, list, "No function matches", "", "store.list")
	_, list = ann.get("functions?q=wipe")
	contains(t, list, "", "functions/store.wipe", "<td>destroy")

	_, one := ann.get("functions/store.list")
	contains(t, one, "store.list(word: string)", "2 calls, 0 failed", "", "<script>alert", "\u202e", "42 calls")
	status, one := ann.get("functions/store.wipe")
	if status != fault.UnknownFunction.HTTP() {
		t.Errorf("a function that the viewer may not use: status %d", status)
	}
	contains(t, one, "Not shown", "", "destroy", "Gives what")
	_, one = boss.get("functions/store.wipe")
	contains(t, one, "<dd>destroy</dd>", "<dd>admin</dd>", "not called")
}

// TestSavings: the sums are those of the viewer's own runs, and of all runs for those who see all.
func TestSavings(t *testing.T) {
	t.Parallel()
	admin := person("admin")
	admin.All = true
	s := newSite(t, map[string]*console.Viewer{"ann": reader("token:ann"), "bob": reader("token:bob"), "admin": admin})
	s.secretStore(t)
	run := func(caller, request string) {
		t.Helper()
		if a := s.engine.Run(t.Context(), []byte(request), &chain.Caller{ID: caller}); !a.OK {
			t.Fatal(string(a.JSON))
		}
	}
	for range 3 {
		run("token:ann", `{"name":"`+`<i>weekly`+`","steps":[{"fn":"store.list","args":{"word":"a"}},{"fn":"store.list","args":{"word":"b"}}]}`)
	}
	for range 11 {
		run("token:bob", `{"steps":[{"fn":"store.list","args":{"word":"a"}},{"fn":"store.wipe"},{"fn":"store.list","args":{"word":"c"}}]}`)
	}
	_, page := s.browser(t, "ann").get("savings")
	contains(t, page, "<dt>Round trips saved</dt><dd>3</dd>", "<dt>Runs</dt><dd>3</dd>", "&lt;i&gt;weekly", "store.list", "<svg", "<title>"+time.Now().UTC().Format("2006"), ": 3</title>",
		"", "By caller", "token:bob", "store.wipe", "<i>weekly", "onecall save", "<dd>25<", "<dd>22<")
	_, page = s.browser(t, "bob").get("savings?days=7")
	contains(t, page, "<dt>Round trips saved</dt><dd>22</dd>", "onecall save run_", "NAME</code>", "", "weekly", "store.wipe", "token:ann")
	_, page = s.browser(t, "admin").get("savings?days=90")
	contains(t, page, "<dt>Round trips saved</dt><dd>25</dd>", "By caller", "token:ann", "token:bob", "store.wipe")
	if status, page := s.browser(t, "ann").get("savings?days=8"); status != http.StatusBadRequest {
		t.Errorf("a range of 8 days: status %d: %s", status, page)
	}
}

// TestCauses: why a source is down is for administrators, in checks and in answers, too.
func TestCauses(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]*console.Viewer{"ann": doer("token:ann", steps.TierRead), "admin": doer("token:admin", steps.TierAdmin)})
	away := fault.New(fault.Unavailable, "10.0.0.7 refuses connections")
	s.add(t, "wiki", steps.Status{State: steps.StateRetrying, Error: away})
	page := returning("notes.page", "")
	page.Call = func(context.Context, []byte) ([]byte, error) { return nil, away }
	s.add(t, "notes", ready, page)
	for viewer, reads := range map[string]bool{"ann": false, "admin": true} {
		for text, do := range map[string]string{`{"steps":[{"fn":"wiki.page"}]}`: "check", `{"steps":[{"fn":"notes.page"}]}`: "run"} {
			_, page := s.browser(t, viewer).fill("playground", url.Values{"text": {text}, "do": {do}})
			if strings.Contains(page, "10.0.0.7") != reads || !strings.Contains(page, "unavailable") {
				t.Errorf("%s reads of %s: %s", viewer, text, page)
			}
		}
	}
}
