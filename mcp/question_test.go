package mcp_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/mcp/internal/mcptest"
	"github.com/onecall-mcp/onecall/mcp/transport"
	"github.com/onecall-mcp/onecall/steps"
)

const createChain = `{"steps":[{"fn":"shop.item.create","args":{"count":1}}]}`

// asking returns a client of MCP 2026-07-28 that can ask its user. The test repeats its requests with the answers to questions.
func asking(t *testing.T, url, token string) *sdk.ClientSession {
	t.Helper()
	o := &sdk.ClientOptions{MultiRoundTrip: &sdk.MultiRoundTripOptions{Disabled: true},
		ElicitationHandler: func(context.Context, *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
			t.Error("a server of 2026-07-28 asks by its results")
			return nil, context.Canceled
		}}
	return mcptest.Connect(t, &sdk.StreamableClientTransport{Endpoint: url, HTTPClient: bearing(token)}, o, statelessVersion)
}

// send sends a call, with the reply to a question; state "": the first time, without a reply.
func send(t *testing.T, c *sdk.ClientSession, tool, args, state string, reply sdk.InputResponse) *sdk.CallToolResult {
	t.Helper()
	p := &sdk.CallToolParams{Name: tool, Arguments: json.RawMessage(args), RequestState: state}
	if reply != nil {
		p.InputResponses = sdk.InputResponseMap{"approval": reply}
	}
	result, err := c.CallTool(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// isAsked checks that a result only asks the user, and returns its state.
func isAsked(t *testing.T, r *sdk.CallToolResult, about string) (state string) {
	t.Helper()
	question, ok := r.InputRequests["approval"].(*sdk.ElicitParams)
	if !ok || !r.NeedsInput() || len(r.InputRequests) != 1 || len(r.Content) != 0 || !strings.Contains(question.Message, about) {
		t.Fatalf("%+v asks %+v", r, question)
	}
	return r.RequestState
}

// isRefused checks that a result has an error with a code, and does not ask the user.
func isRefused(t *testing.T, r *sdk.CallToolResult, code string) {
	t.Helper()
	if text := mcptest.TextOf(t, r); gjson.Get(text, "error.code").Str != code || r.NeedsInput() {
		t.Errorf("it is no %s: %s", code, text)
	}
}

var accepted, declined = &sdk.ElicitResult{Action: "accept", Content: map[string]any{}}, &sdk.ElicitResult{Action: "decline"}

// TestQuestionAfterAnswer: a result asks a client of MCP 2026-07-28, and the repeated request continues the same run. Nothing is sent for a
// state that is forged, cut, used up, or of another caller or call.
func TestQuestionAfterAnswer(t *testing.T) {
	t.Parallel()
	s := serve(t, approving(t, steps.ApproveWrite))
	url := s.serveAs(t, &transport.Access{Callers: mcptest.Staff})
	ann, eve := asking(t, url, "ann"), asking(t, url, "eve")
	state := isAsked(t, send(t, ann, "chain", createChain, "", nil), `shop.item.create (write, step 0) {"count":1}`)
	another := isAsked(t, send(t, ann, "chain", createChain, "", nil), "shop.item.create")
	run, proof, _ := strings.Cut(state, ".")
	otherRun, otherProof, _ := strings.Cut(another, ".")
	if run == otherRun || proof == otherProof {
		t.Errorf("%s and %s are of one run", state, another)
	}
	for name, test := range map[string]struct{ state, code string }{
		"of another run": {run + "." + otherProof, "denied"},
		"of no run":      {"ocq_" + "run_none." + proof, "token_expired"},
		"cut":            {state[:len(state)-1], "denied"},
		"without proof":  {run + ".", "denied"},
		"without end":    {run, "denied"},
		"empty":          {"ocq_", "denied"},
		"longer":         {state + "A", "denied"},
		"changed":        {run + "." + flipped(proof), "denied"},
	} {
		t.Log(name)
		isRefused(t, send(t, ann, "chain", createChain, test.state, accepted), test.code)
	}
	isRefused(t, send(t, eve, "chain", createChain, state, accepted), "token_expired")
	for _, reply := range []sdk.InputResponse{nil, &sdk.ElicitResult{Action: "cancel"}, &sdk.ListRootsResult{Roots: []*sdk.Root{}}} {
		again := isAsked(t, send(t, ann, "chain", createChain, "", nil), "shop.item.create")
		isRefused(t, send(t, ann, "chain", createChain, again, reply), "approval_required")
	}
	if n := s.shop.calls.Load(); n != 0 {
		t.Fatalf("%d calls were made before anybody had approved one", n)
	}
	if text := mcptest.TextOf(t, send(t, ann, "chain", createChain, state, accepted)); !gjson.Get(text, "ok").Bool() {
		t.Fatal(text)
	}
	isRefused(t, send(t, ann, "chain", createChain, state, accepted), "token_expired")
	isRefused(t, send(t, ann, "chain", createChain, another, declined), "denied")
	isRefused(t, send(t, ann, "chain", createChain, another, accepted), "denied")
	if n := s.shop.calls.Load(); n != 1 {
		t.Errorf("%d calls", n)
	}
}

func flipped(text string) string {
	if text[0] == 'A' {
		return "B" + text[1:]
	}
	return "A" + text[1:]
}

// TestQuestionAnsweredTwice: of two simultaneous answers one continues the run, and the call is made once.
func TestQuestionAnsweredTwice(t *testing.T) {
	t.Parallel()
	s := serve(t, approving(t, steps.ApproveWrite))
	c := asking(t, s.http(t, writer), "")
	state := isAsked(t, send(t, c, "chain", createChain, "", nil), "shop.item.create")
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			r := send(t, c, "chain", createChain, state, accepted)
			if code := gjson.Get(mcptest.TextOf(t, r), "error.code").Str; code != "" && code != "busy" && code != "token_expired" &&
				code != "denied" {
				t.Errorf("%s", code)
			}
		})
	}
	all.Wait()
	if n := s.shop.calls.Load(); n != 1 {
		t.Errorf("%d calls", n)
	}
}

// TestQuestionOverStdio: the SDK's client asks its user and repeats the request by itself.
func TestQuestionOverStdio(t *testing.T) {
	t.Parallel()
	s := serve(t, approving(t, steps.ApproveWrite))
	asked := 0
	c := s.stdio(t, writer, &sdk.ClientOptions{ElicitationHandler: func(context.Context, *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
		asked++
		return accepted, nil
	}})
	if text, failed := mcptest.Ask(t, c, "chain", createChain); failed || asked != 1 || s.shop.calls.Load() != 1 {
		t.Errorf("asked %d times: %s", asked, text)
	}
}
