package mcp_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/mcp"
	"github.com/onecall-mcp/onecall/mcp/internal/mcptest"
	"github.com/onecall-mcp/onecall/steps"
)

// TestApprovalByElicitation checks that a client that can ask its user does so during the call, and that any other gets the waiting answer.
func TestApprovalByElicitation(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ action, code string }{{"accept", ""}, {"decline", "denied"}, {"cancel", "approval_required"},
		{"", "approval_required"}} {
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
					t.Fatalf("want code %q: %s", test.code, text)
				}
				if question := asked.Load(); test.action != "" && (question == nil ||
					!strings.Contains(*question, `shop.item.create (write, step 0) {"name":"tea\u2028"}`)) {
					t.Errorf("the user was asked %v, want shop.item.create with its arguments", question)
				}
				if test.code == "approval_required" && (gjson.Get(text, "approve").Exists() || gjson.Get(text, "resume").Str == "") {
					t.Errorf("the answer has the approval, or lacks the run to resume: %s", text)
				}
			})
		}
	}
}

// approving makes the calls of functions wait for approval.
func approving(t *testing.T, what string) func(*mcp.Options) {
	t.Helper()
	j, err := journal.New(&journal.Memory{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	return func(o *mcp.Options) {
		if o.Engine, err = chain.New(&chain.Options{Functions: o.Catalog, Counter: o.Counter, Journal: j, Approve: what, ApproveByPerson: true,
			MaxTotalTokens: o.MaxTotalTokens}); err != nil {
			t.Fatal(err)
		}
	}
}
