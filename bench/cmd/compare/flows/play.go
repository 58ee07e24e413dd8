package flows

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/harness"
	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/app"
	"github.com/onecall-mcp/onecall/internal/rawjson"
	"github.com/onecall-mcp/onecall/steps"
)

// stage is a suite that can be played: an MCP server with its tools, which answers from the recorded calls, and onecall in front of it,
// with the suite's policy.
type stage struct {
	*app.App
	web *http.Server

	mu      sync.Mutex
	results map[string][]json.RawMessage // by call: the results that are left; the last one stays
	made    map[string]int               // by call: how often it was made
}

// open opens the stage of a suite.
func (s *suite) open(ctx context.Context, b *harness.Bench) *stage {
	st := &stage{}
	server := sdk.NewServer(&sdk.Implementation{Name: s.name, Version: "1"}, nil)
	for _, t := range s.tools {
		server.AddTool(&sdk.Tool{Name: t.Name, Description: t.Description, InputSchema: t.Arguments,
			Annotations: &sdk.ToolAnnotations{ReadOnlyHint: t.Kind == "read"}}, st.answer(s.name+"."+t.Name))
	}
	listener := harness.Must(net.Listen("tcp", "127.0.0.1:0"))
	st.web = &http.Server{Handler: sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server },
		&sdk.StreamableHTTPOptions{Stateless: true})}
	go func() { _ = st.web.Serve(listener) }() // it ends with close
	config := filepath.Join(b.Temp, s.name, "onecall.yaml")
	harness.WriteFile(config, fmt.Appendf(s.policy(b), "\nmcpServers: {%s: {url: \"http://%s/\"}}\njournal: {store: memory}\n", s.name,
		listener.Addr()))
	st.App = harness.Must(app.Open(ctx, &app.Options{Config: config, Calls: true, Reporter: harness.Silent{}, Redactor: &app.Redactor{}}))
	return st
}

func (st *stage) close() {
	harness.Check(st.App.Close())
	harness.Check(st.web.Close())
}

// answer answers calls of a function from the recording.
func (st *stage) answer(function string) sdk.ToolHandler {
	return func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		id := callID(function, r.Params.Arguments)
		st.mu.Lock()
		defer st.mu.Unlock()
		st.made[id]++
		left := st.results[id]
		if len(left) == 0 {
			return nil, fmt.Errorf("the recording has no such call: %s", id)
		}
		if len(left) > 1 {
			st.results[id] = left[1:]
		}
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: textOf(left[0])}}}, nil
	}
}

// textOf returns a result as the tool of an MCP server writes it: a text as it is, else JSON.
func textOf(result json.RawMessage) string {
	var text string
	if json.Unmarshal(result, &text) == nil {
		return text
	}
	return string(result)
}

// callID identifies a call. An argument that is null is as one that is not there.
func callID(function string, args any) string {
	given, kept := map[string]json.RawMessage{}, map[string]json.RawMessage{}
	harness.Check(json.Unmarshal(harness.Must(json.Marshal(args)), &given))
	for name, value := range given {
		if string(value) != "null" {
			kept[name] = value
		}
	}
	return function + " " + string(harness.Must(rawjson.AppendCanonical(nil, harness.Must(json.Marshal(kept)))))
}

// load takes the recorded calls of tasks.
func (st *stage) load(tasks ...*task) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.results, st.made = map[string][]json.RawMessage{}, map[string]int{}
	for _, t := range tasks {
		for i := range t.Steps {
			id := t.callID(i)
			st.results[id] = append(st.results[id], t.Results[i])
		}
	}
}

// callID identifies call i of a task.
func (t *task) callID(i int) string {
	if t.LiteralArgs != nil {
		return callID(t.Steps[i].Fn, t.LiteralArgs[i])
	}
	return callID(t.Steps[i].Fn, t.Steps[i].Args)
}

// talk is one session of a model with onecall, and the person whom onecall asks.
type talk struct {
	stage     *stage
	ctx       context.Context //nolint:containedctx // of the session
	yes       bool            // what the person answers
	questions int
	refused   *fault.Error // why a chain was refused; nil: none was
}

func (st *stage) begin(ctx context.Context) *talk {
	return &talk{stage: st, ctx: steps.WithSession(ctx, &steps.Session{}), yes: true}
}

// send sends a chain. A chain that a rule refuses, or whose calls the person denies, ends the talk: it returns false.
func (t *talk) send(request []byte) bool {
	caller := &chain.Caller{ID: "model", Approve: func(context.Context, []chain.ApprovalCall) (bool, error) {
		t.questions++
		return t.yes, nil
	}}
	a := t.stage.Run(t.ctx, request, caller)
	if a.OK {
		return true
	}
	t.refused = a.Error
	if len(a.Faults) > 0 {
		t.refused = a.Faults[0]
	}
	harness.FailIf(t.refused.Code != fault.FlowDenied && t.refused.Code != fault.Denied, "%s answered %s", request, a.JSON)
	return false
}

// readPolicy returns a committed policy; false: there is none of the suite.
func readPolicy(root, name string) ([]byte, bool) {
	text, err := os.ReadFile(filepath.Join(root, "bench/cmd/compare/flows/policies", name+".yaml"))
	return text, err == nil
}
