package mcp

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/mcp/internal/mcptest"
	"github.com/onecall-mcp/onecall/steps"
)

// TestApprovalByElicitation: a client that can ask its user does so at the call; any other client gets the answer that waits.
func TestApprovalByElicitation(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ action, code string }{{"accept", ""}, {"decline", "denied"}, {"cancel", "approval_required"}, {"", "approval_required"}} {
		for _, version := range []string{statefulVersion, statelessVersion} {
			t.Run(test.action+"/"+version, func(t *testing.T) {
				t.Parallel()
				var asked atomic.Pointer[string]
				o := &sdk.ClientOptions{}
				if test.action != "" {
					o.ElicitationHandler = func(_ context.Context, r *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
						asked.Store(&r.Params.Message)
						return &sdk.ElicitResult{Action: test.action, Content: map[string]any{}}, nil
					}
				}
				s := serve(t, approving(t, steps.ApproveWrite))
				session := mcptest.Connect(t, &sdk.StreamableClientTransport{Endpoint: s.http(t, writer)}, o, version)
				text, failed := mcptest.Ask(t, session, "chain", "{\"steps\":[{\"fn\":\"shop.item.create\",\"args\":{\n\"name\":\"tea\u2028\"}}]}")
				if code := gjson.Get(text, "error.code").Str; code != test.code || failed != (code != "") {
					t.Fatalf("%s", text)
				}
				if question := asked.Load(); test.action != "" && (question == nil || !strings.Contains(*question, `shop.item.create (write, step 0) {"name":"tea\u2028"}`)) {
					t.Errorf("it was asked %v", question)
				}
				if test.code == "approval_required" && (gjson.Get(text, "approve").Exists() || gjson.Get(text, "resume").Str == "") {
					t.Errorf("nobody can go on with %s", text)
				}
			})
		}
	}
}

// approving has the calls of functions wait for approval.
func approving(t *testing.T, what string) func(*Options) {
	t.Helper()
	j, err := journal.New(&journal.Memory{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	return func(o *Options) {
		if o.Engine, err = chain.New(&chain.Options{Functions: o.Catalog, Counter: o.Counter, Journal: j, Approve: what, ApproveByPerson: true, MaxTotalTokens: o.MaxTotalTokens}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestApprovalIsSeenAsItIs: no argument and no undo reads as a line of the question's own, turns its text around or hides a part of it.
func TestApprovalIsSeenAsItIs(t *testing.T) {
	t.Parallel()
	const hidden = "\u0085\u009b\u00ad\u034f\u200b\u200d\u2028\u2029\u202e\u2066\u3164\ufe0f\ufeff\U000e0041\U000e0100"
	said := `{"a":"é日` + hidden + `  undo: {}"}`
	call := chain.ApprovalCall{StepPath: "0", Function: "a.b", Effect: steps.Write, Args: []byte(said), Undo: []byte(said)}
	text, ok := questionText([]chain.ApprovalCall{call})
	if !ok || strings.ContainsAny(text, hidden) || strings.Count(text, "\n") != 3 {
		t.Fatalf("%t, %q", ok, text)
	}
	for _, line := range strings.Split(text, "\n")[2:] {
		_, shown, _ := strings.Cut(line, `{"a"`)
		shown = `{"a"` + shown
		if !strings.Contains(shown, `é日\u0085`) || gjson.Get(shown, "a").Str != gjson.Get(said, "a").Str {
			t.Errorf("%q is shown as %q", said, shown)
		}
	}
}

// TestApprovalIsSeenWhole: what is too long for a question is asked of nobody.
func TestApprovalIsSeenWhole(t *testing.T) {
	t.Parallel()
	call := chain.ApprovalCall{StepPath: "0", Function: "a.b", Effect: steps.Write, Args: []byte(`{"a":1}`), Undo: []byte(`{"fn":"c.d"}`)}
	if text, ok := questionText([]chain.ApprovalCall{call, call}); !ok || strings.Count(text, `a.b (write, step 0) {"a":1}`) != 2 || !strings.Contains(text, `undo: {"fn":"c.d"}`) {
		t.Errorf("%t, %s", ok, text)
	}
	call.Args = []byte(`{"a":"` + strings.Repeat("x", maxQuestion) + `"}`)
	if _, ok := questionText([]chain.ApprovalCall{call}); ok {
		t.Error("a question that nobody can read")
	}
}
