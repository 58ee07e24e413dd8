package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"
)

// fullServer is a server of the SDK with all features of MCP in addition to tools.
func fullServer() *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "full", Version: "1"}, &sdk.ServerOptions{
		SubscribeHandler:   func(context.Context, *sdk.SubscribeRequest) error { return nil },
		UnsubscribeHandler: func(context.Context, *sdk.UnsubscribeRequest) error { return nil },
		CompletionHandler: func(_ context.Context, r *sdk.CompleteRequest) (*sdk.CompleteResult, error) {
			return &sdk.CompleteResult{Completion: sdk.CompletionResultDetails{Values: []string{r.Params.Argument.Value + "lin"}}}, nil
		},
	})
	add := func(name string, h sdk.ToolHandler) {
		s.AddTool(&sdk.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`), Meta: sdk.Meta{"x": 1}}, h)
	}
	add("pid", answering(fmt.Sprint(os.Getpid())))
	add("die", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) { os.Exit(7); return nil, nil })
	add("meta", func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		meta, err := json.Marshal(r.Params.GetMeta())
		return textResult(string(meta)), err
	})
	add("fail", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return nil, &jsonrpc.Error{Code: -32042, Message: "first go there", Data: json.RawMessage(`{"elicitations":[]}`)}
	})
	add("ask", func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return textResult(formatElicitation(r.Session.Elicit(ctx, &sdk.ElicitParams{Message: gjson.GetBytes(r.Params.Arguments, "q").String(),
			RequestedSchema: json.RawMessage(`{"type":"object","properties":{"a":{"type":"string"}}}`)}))), nil
	})
	add("log", func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		for i := range int(gjson.GetBytes(r.Params.Arguments, "n").Int()) {
			//nolint:staticcheck // servers still log
			if err := r.Session.Log(ctx, &sdk.LoggingMessageParams{Level: "warning",
				Data: json.RawMessage(fmt.Sprintf(`{"i":%d,"big":12345678901234567890}`, i))}); err != nil {
				return nil, err
			}
		}
		return textResult("logged"), nil
	})
	gate, blocked := make(chan struct{}), make(chan struct{})
	add("ask late", func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) { // it asks while "hold" runs
		if token := r.Params.GetProgressToken(); token != nil {
			if err := r.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: token, Progress: 1}); err != nil {
				return nil, err
			}
		}
		<-gate
		return textResult(formatElicitation(r.Session.Elicit(ctx, &sdk.ElicitParams{Message: "late", RequestedSchema: json.RawMessage(`{"type":"object"}`)}))),
			nil
	})
	add("hold", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) { // it runs until "let go" runs
		gate <- struct{}{}
		<-blocked
		return textResult("held"), nil
	})
	add("let go", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		blocked <- struct{}{}
		return textResult("let go"), nil
	})
	add("log late", func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) { // it logs while "hold" runs
		<-gate
		//nolint:staticcheck // servers still log
		return textResult("logged"), r.Session.Log(ctx, &sdk.LoggingMessageParams{Level: "info", Data: "secret of " +
			gjson.GetBytes(r.Params.Arguments, "who").String()})
	})
	add("touch", func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return textResult("touched"), s.ResourceUpdated(ctx, &sdk.ResourceUpdatedNotificationParams{URI: gjson.GetBytes(r.Params.Arguments,
			"uri").String()})
	})
	add("more", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		s.AddPrompt(&sdk.Prompt{Name: fmt.Sprint("p", time.Now().UnixNano())}, nil)
		return textResult("more"), nil
	})
	add("input", func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		if answer, ok := r.Params.InputResponses["q"].(*sdk.ElicitResult); ok {
			return textResult(fmt.Sprint(r.Params.RequestState, " ", answer.Content["a"])), nil
		}
		return &sdk.CallToolResult{InputRequests: sdk.InputRequestMap{"q": &sdk.ElicitParams{Message: "which?"}}, RequestState: "s1"}, nil
	})
	//nolint:staticcheck // servers still ask for roots
	add("roots", func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		roots, err := r.Session.ListRoots(ctx, nil)
		return textResult(formatRoots(roots, err)), nil
	})
	add("input roots", func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		_, given := r.Params.InputResponses["q"]
		meta, err := json.Marshal(r.Params.GetMeta())
		return textResult(fmt.Sprint(given, " ", string(meta))), err
	})
	s.AddResource(&sdk.Resource{Name: "r", URI: "a://r"}, func(ctx context.Context, r *sdk.ReadResourceRequest) (*sdk.ReadResourceResult,
		error) {
		if token := r.Params.GetProgressToken(); token != nil {
			if err := r.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: token, Progress: 1, Total: 2}); err != nil {
				return nil, err
			}
		}
		return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: "a://r", Text: "hi",
			Meta: sdk.Meta{"n": json.RawMessage("12345678901234567890")}}}}, nil
	})
	s.AddPrompt(&sdk.Prompt{Name: "p"}, func(context.Context, *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
		return &sdk.GetPromptResult{Messages: []*sdk.PromptMessage{{Role: "user", Content: &sdk.TextContent{Text: "do"}}}}, nil
	})
	return s
}

// formatRoots returns how many roots a client has.
func formatRoots(roots *sdk.ListRootsResult, err error) string { //nolint:staticcheck // servers still ask for roots
	if err != nil {
		return "refused: " + err.Error()
	}
	return fmt.Sprint(len(roots.Roots), " roots")
}

func formatElicitation(answer *sdk.ElicitResult, err error) string {
	if err != nil {
		return "refused: " + err.Error()
	}
	return fmt.Sprint(answer.Action, " ", answer.Content["a"])
}
