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

// connectAskable returns a client of MCP 2026-07-28 that can ask its user. The test repeats its requests with the answers to questions.
func connectAskable(t *testing.T, url, token string) *sdk.ClientSession {
	t.Helper()
	o := &sdk.ClientOptions{MultiRoundTrip: &sdk.MultiRoundTripOptions{Disabled: true},
		ElicitationHandler: func(context.Context, *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
			t.Error("the server sent a request instead of asking in its result")
			return nil, context.Canceled
		}}
	return mcptest.Connect(t, &sdk.StreamableClientTransport{Endpoint: url, HTTPClient: withToken(token)}, o, statelessVersion)
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

// wantQuestion checks that a result only asks the user, and returns its state.
func wantQuestion(t *testing.T, r *sdk.CallToolResult, text string) (state string) {
	t.Helper()
	question, ok := r.InputRequests["approval"].(*sdk.ElicitParams)
	if !ok || !r.NeedsInput() || len(r.InputRequests) != 1 || len(r.Content) != 0 || !strings.Contains(question.Message, text) {
		t.Fatalf("want only a question with %q, got %+v in %+v", text, question, r)
	}
	return r.RequestState
}

// wantRefusal checks that a result has an error with a code, and does not ask the user.
func wantRefusal(t *testing.T, r *sdk.CallToolResult, code string) {
	t.Helper()
	if text := mcptest.TextOf(t, r); gjson.Get(text, "error.code").Str != code || r.NeedsInput() {
		t.Errorf("want code %s, got %s", code, text)
	}
}

var accepted, declined = &sdk.ElicitResult{Action: "accept", Content: map[string]any{}}, &sdk.ElicitResult{Action: "decline"}

// TestQuestionInResult: a result asks a client of MCP 2026-07-28, and the repeated request continues the same run. Nothing is sent for a
// state that is forged, cut, used up, or of another caller or call.
func TestQuestionInResult(t *testing.T) {
	t.Parallel()
	s := serve(t, approving(t, steps.ApproveWrite))
	url := s.serveAs(t, &transport.Access{Callers: mcptest.Staff})
	ann, eve := connectAskable(t, url, "ann"), connectAskable(t, url, "eve")
	state := wantQuestion(t, send(t, ann, "chain", createChain, "", nil), `shop.item.create (write, step 0) {"count":1}`)
	another := wantQuestion(t, send(t, ann, "chain", createChain, "", nil), "shop.item.create")
	run, proof, _ := strings.Cut(state, ".")
	otherRun, otherProof, _ := strings.Cut(another, ".")
	if run == otherRun || proof == otherProof {
		t.Errorf("%s and %s have the same run or proof, want both different", state, another)
	}
	for name, test := range map[string]struct{ state, code string }{
		"of another run":      {run + "." + otherProof, "denied"},
		"of no run":           {"ocq_" + "run_none." + proof, "token_expired"},
		"truncated":           {state[:len(state)-1], "denied"},
		"without proof":       {run + ".", "denied"},
		"without a separator": {run, "denied"},
		"empty":               {"ocq_", "denied"},
		"longer":              {state + "A", "denied"},
		"changed":             {run + "." + flipped(proof), "denied"},
	} {
		t.Log(name)
		wantRefusal(t, send(t, ann, "chain", createChain, test.state, accepted), test.code)
	}
	wantRefusal(t, send(t, eve, "chain", createChain, state, accepted), "token_expired")
	for _, reply := range []sdk.InputResponse{nil, &sdk.ElicitResult{Action: "cancel"}, &sdk.ListRootsResult{Roots: []*sdk.Root{}}} {
		again := wantQuestion(t, send(t, ann, "chain", createChain, "", nil), "shop.item.create")
		wantRefusal(t, send(t, ann, "chain", createChain, again, reply), "approval_required")
	}
	if n := s.shop.calls.Load(); n != 0 {
		t.Fatalf("%d calls before an approval, want none", n)
	}
	if text := mcptest.TextOf(t, send(t, ann, "chain", createChain, state, accepted)); !gjson.Get(text, "ok").Bool() {
		t.Fatalf("got %s, want success", text)
	}
	wantRefusal(t, send(t, ann, "chain", createChain, state, accepted), "token_expired")
	wantRefusal(t, send(t, ann, "chain", createChain, another, declined), "denied")
	wantRefusal(t, send(t, ann, "chain", createChain, another, accepted), "denied")
	if n := s.shop.calls.Load(); n != 1 {
		t.Errorf("%d calls, want 1", n)
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
	c := connectAskable(t, s.http(t, writer), "")
	state := wantQuestion(t, send(t, c, "chain", createChain, "", nil), "shop.item.create")
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			r := send(t, c, "chain", createChain, state, accepted)
			if code := gjson.Get(mcptest.TextOf(t, r), "error.code").Str; code != "" && code != "busy" && code != "token_expired" &&
				code != "denied" {
				t.Errorf("code %s, want none, busy, token_expired or denied", code)
			}
		})
	}
	all.Wait()
	if n := s.shop.calls.Load(); n != 1 {
		t.Errorf("%d calls, want 1", n)
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
		t.Errorf("asked %d times, want 1; %d calls, want 1: %s", asked, s.shop.calls.Load(), text)
	}
}
