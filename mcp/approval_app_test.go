package mcp_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/mcp"
	"github.com/onecall-mcp/onecall/mcp/internal/mcptest"
	"github.com/onecall-mcp/onecall/mcp/transport"
	"github.com/onecall-mcp/onecall/steps"
)

// appClient returns the options of a client that shows apps.
func appClient() *sdk.ClientOptions {
	o := &sdk.ClientOptions{Capabilities: &sdk.ClientCapabilities{}}
	o.Capabilities.AddExtension("io.modelcontextprotocol/ui", map[string]any{"mimeTypes": []string{"text/html;profile=mcp-app"}})
	return o
}

// appServer serves a shop whose writes need approval to the callers of transcripts.
func appServer(t *testing.T, byPerson bool) (s *testServer, as func(token, version string) *sdk.ClientSession) {
	t.Helper()
	j, err := journal.New(&journal.Memory{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	s = serve(t, func(o *mcp.Options) {
		if o.Engine, err = chain.New(&chain.Options{Functions: o.Catalog, Counter: o.Counter, Journal: j, Approve: steps.ApproveWrite,
			ApproveByPerson: byPerson, MaxTotalTokens: o.MaxTotalTokens}); err != nil {
			t.Fatal(err)
		}
	})
	url := s.serveAs(t, &transport.Access{Callers: transcriptCallers})
	return s, func(token, version string) *sdk.ClientSession {
		client := &http.Client{Transport: mcptest.Header{"Authorization": "Bearer " + token}}
		return mcptest.Connect(t, &sdk.StreamableClientTransport{Endpoint: url, HTTPClient: client, MaxRetries: -1}, appClient(), version)
	}
}

// TestApprovalAppRights: the app decides what its caller may decide with chain, and nothing else. No refusal changes anything.
func TestApprovalAppRights(t *testing.T) {
	t.Parallel()
	for _, version := range []string{statefulVersion, statelessVersion} {
		for _, deny := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/deny=%t", version, deny), func(t *testing.T) {
				t.Parallel()
				s, as := appServer(t, false)
				verb := map[bool]string{false: "allow", true: "deny"}[deny]
				ann, root := as("ann", version), as("root", version)
				waits := func(of *sdk.ClientSession) (run, approve string) {
					text, _ := mcptest.Ask(t, of, "chain", createChain)
					if run, approve = gjson.Get(text, "resume").Str, gjson.Get(text, "approve").Str; run == "" || approve == "" {
						t.Fatalf("want a run that waits, and its approve: %s", text)
					}
					return run, approve
				}
				run, approve := waits(ann)
				other, approveOther := waits(root)
				rule := func(of *sdk.ClientSession, run, approve string) (text string, code string) {
					text, _ = mcptest.Ask(t, of, "onecall_approval", fmt.Sprintf(`{"run":%q,"approve":%q,%q:["0"],"reason":"so"}`, run, approve, verb))
					return text, gjson.Get(text, "error.code").Str
				}
				for what, try := range map[string]struct {
					of                 *sdk.ClientSession
					run, approve, code string
				}{
					"another caller's run":  {root, run, approve, "token_expired"},
					"another run's approve": {ann, run, approveOther, "denied"},
					"no approve":            {ann, run, "", "denied"},
					"a changed approve":     {ann, run, strings.ToUpper(approve), "denied"},
					"no run":                {ann, "run_aaaaaaaaaaaaaaaaaaaaaaaaaa", approve, "token_expired"},
				} {
					if text, code := rule(try.of, try.run, try.approve); code != try.code {
						t.Errorf("%s: want %s: %s", what, try.code, text)
					}
				}
				if text, code := rule(ann, run, approve); code != "" || gjson.Get(text, "waiting").Raw != "0" {
					t.Fatalf("the caller's own run: %s", text)
				}
				if text, code := rule(ann, run, approve); code != "bad_request" {
					t.Errorf("a second decision: want bad_request: %s", text)
				}
				if n := s.shop.calls.Load(); n != 0 {
					t.Errorf("%d calls, want none before a resume", n)
				}
				text, _ := mcptest.Ask(t, ann, "chain", fmt.Sprintf(`{"resume":%q}`, run))
				if deny && !strings.Contains(gjson.Get(text, "error.message").Str, "denied by token:ann") {
					t.Errorf("the agent does not read who denied the call: %s", text)
				}
				if made := s.shop.calls.Load(); deny && (made != 0 || gjson.Get(text, "ok").Bool()) || !deny && made != 1 {
					t.Errorf("%d calls after the resume: %s", made, text)
				}
				text, _ = mcptest.Ask(t, root, "chain", fmt.Sprintf(`{"resume":%q}`, other))
				if code := gjson.Get(text, "error.code").Str; code != "approval_required" {
					t.Errorf("the run of another caller: want it to wait still: %s", text)
				}
			})
		}
	}
}

// TestApprovalAppByPerson: where only a person approves, no answer has an approve, and the app decides nothing, whatever it is sent.
func TestApprovalAppByPerson(t *testing.T) {
	t.Parallel()
	s, as := appServer(t, true)
	ann := as("ann", statefulVersion)
	text, _ := mcptest.Ask(t, ann, "chain", createChain)
	run := gjson.Get(text, "resume").Str
	if run == "" || gjson.Get(text, "approve").Exists() {
		t.Fatalf("want a run without an approve: %s", text)
	}
	for _, verb := range []string{"allow", "deny"} {
		text, _ := mcptest.Ask(t, ann, "onecall_approval", fmt.Sprintf(`{"run":%q,"approve":"oca_x",%q:["0"]}`, run, verb))
		if gjson.Get(text, "error.code").Str != "denied" || !strings.Contains(text, "onecall approve") {
			t.Errorf("want denied, with the command that approves: %s", text)
		}
	}
	text, _ = mcptest.Ask(t, ann, "chain", fmt.Sprintf(`{"resume":%q}`, run))
	if gjson.Get(text, "error.code").Str != "approval_required" || s.shop.calls.Load() != 0 {
		t.Errorf("%d calls; want the run to wait still: %s", s.shop.calls.Load(), text)
	}
}

// TestApprovalAppListed: a source that starts late can make approvals possible. Then the tools name the app, and clients are told.
func TestApprovalAppListed(t *testing.T) {
	t.Parallel()
	s := serve(t, approving(t, steps.ApproveNever))
	changed := make(chan struct{}, 100)
	o := appClient()
	o.ToolListChangedHandler = func(context.Context, *sdk.ToolListChangedRequest) { changed <- struct{}{} }
	c := mcptest.Connect(t, &sdk.StreamableClientTransport{Endpoint: s.http(t, writer)}, o, statefulVersion)
	named := func() (app, tool bool) {
		list, err := c.ListTools(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range list.Tools {
			app = app || one.Name == "chain" && one.Meta["ui"] != nil
			tool = tool || one.Name == "onecall_approval"
		}
		return app, tool
	}
	if app, tool := named(); app || tool {
		t.Errorf("no call needs approval: the app is named %t, its tool %t", app, tool)
	}
	put := echoFunction(steps.Spec{Name: "late.put", Effect: steps.Write, Approve: steps.ApproveWrite})
	if err := s.catalog.Add("late", functionsSource{put}); err != nil {
		t.Fatal(err)
	}
	<-changed
	if app, tool := named(); !app || !tool {
		t.Errorf("after list_changed: the app is named %t, its tool %t, want both", app, tool)
	}
}

// TestApprovalPageSize: the page stays small, and reaches nothing.
func TestApprovalPageSize(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("approval_app.html")
	if err != nil {
		t.Fatal(err)
	}
	if len(page) >= 40_000 {
		t.Errorf("%d bytes, want less than 40,000", len(page))
	}
	for _, word := range []string{"http:", "https:", "//cdn", "src=", "href=", "fetch(", "XMLHttpRequest", "WebSocket", "innerHTML", "eval("} {
		if strings.Contains(string(page), word) {
			t.Errorf("the page has %s", word)
		}
	}
}
