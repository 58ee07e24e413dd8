package mcp_test

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/internal/polltest"
	"github.com/onecall-mcp/onecall/mcp"
	"github.com/onecall-mcp/onecall/mcp/internal/mcptest"
	"github.com/onecall-mcp/onecall/steps"
)

// TestApprovalByPage: a client that opens pages, and shows no forms, sends its user to the console during the call. The call goes on with what
// is decided there, and with nothing else.
func TestApprovalByPage(t *testing.T) {
	t.Parallel()
	const twice = `{"steps":[{"fn":"shop.item.create","args":{"count":1}},{"expr":"len($0)"},{"fn":"shop.item.create","args":{"count":"$1"}}]}`
	for name, test := range map[string]struct {
		action       string
		deny         bool
		code         string
		asked, calls int64
	}{
		"approved":  {"accept", false, "", 2, 2},
		"denied":    {"accept", true, "denied", 1, 0},
		"declined":  {"decline", false, "approval_required", 1, 0},
		"dismissed": {"cancel", false, "approval_required", 1, 0},
	} {
		for _, version := range []string{statefulVersion, statelessVersion} {
			t.Run(name+"/"+version, func(t *testing.T) {
				t.Parallel()
				j, err := journal.New(&journal.Memory{}, nil)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { j.Close() })
				s := serve(t, func(o *mcp.Options) {
					o.Console = http.NotFoundHandler()
					o.Engine, err = chain.New(&chain.Options{Functions: o.Catalog, Counter: o.Counter, Journal: j, Approve: steps.ApproveWrite,
						ApproveByPerson: true, MaxTotalTokens: o.MaxTotalTokens})
					if err != nil {
						t.Fatal(err)
					}
				})
				url := s.http(t, writer)
				prefix := strings.TrimSuffix(url, "/mcp") + "/console/runs/"
				var asked, completed atomic.Int64
				o := &sdk.ClientOptions{Capabilities: &sdk.ClientCapabilities{
					Elicitation: &sdk.ElicitationCapabilities{URL: &sdk.URLElicitationCapabilities{}}}}
				o.ElicitationCompleteHandler = func(context.Context, *sdk.ElicitationCompleteNotificationRequest) { completed.Add(1) }
				o.ElicitationHandler = func(_ context.Context, r *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
					asked.Add(1)
					run, ok := strings.CutPrefix(strings.TrimSuffix(r.Params.URL, "/approve"), prefix)
					if !ok || r.Params.Mode != "url" || (r.Params.ElicitationID != "") != (version == statefulVersion) {
						t.Errorf("the client is asked %+v, want it to open %sRUN/approve", r.Params, prefix)
					}
					if test.action == "accept" {
						go decide(t, j, run, test.deny)
					}
					return &sdk.ElicitResult{Action: test.action}, nil
				}
				c := mcptest.Connect(t, &sdk.StreamableClientTransport{Endpoint: url}, o, version)
				text, _ := mcptest.Ask(t, c, "chain", twice)
				if code := gjson.Get(text, "error.code").Str; code != test.code || code != "" && gjson.Get(text, "resume").Str == "" {
					t.Errorf("want code %q, and a run to resume: %s", test.code, text)
				}
				if n := s.shop.calls.Load(); n != test.calls || asked.Load() != test.asked {
					t.Errorf("%d calls, want %d; asked %d times, want %d", n, test.calls, asked.Load(), test.asked)
				}
				want := int64(0) // clients of 2026-07-28 know no such notification
				if version == statefulVersion && test.action == "accept" {
					want = test.asked
				}
				polltest.Until(t, "the client is told that the page was used", func() bool { return completed.Load() == want })
			})
		}
	}
}
