package mcp

import (
	_ "embed"
	"encoding/json"
	"reflect"
	"slices"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/internal/decode"
	"github.com/onecall-mcp/onecall/mcp/internal/raw"
)

// MCP Apps (SEP-1865, 2026-01-26): a host that declares the extension shows a page of the server's beside the result of a tool.
const (
	appsExtension = "io.modelcontextprotocol/ui"
	appMIMEType   = "text/html;profile=mcp-app"
	approvalURI   = "ui://onecall/approval"
)

// approvalPage shows the calls of an answer that wait for approval, and lets the person at the host decide.
//
//go:embed approval_app.html
var approvalPage string

// approvalResource is the result of resources/read for the page. It may reach nothing but its host.
var approvalResource = marshal(map[string]any{"contents": []any{map[string]any{
	"uri": approvalURI, "mimeType": appMIMEType, "text": approvalPage,
	"_meta": map[string]any{"ui": map[string]any{
		"csp":           map[string]any{"connectDomains": []string{}, "resourceDomains": []string{}},
		"prefersBorder": false, // it draws its own, and is empty where nothing waits
	}},
}}})

// approvalTool records what a person decides in the page. Hosts hide it from the model; a host that does not lets the model do what
// it can do with chain, since both need the same approve.
var approvalTool = &sdk.Tool{
	Name: "onecall_approval", Title: "Approval",
	Description: "Records a decision about the calls that a run waits for. Only the page " + approvalURI + " calls it.",
	InputSchema: json.RawMessage(`{"type":"object","properties":{"run":{"type":"string"},"approve":{"type":"string"},` +
		`"allow":{"type":"array","items":{"type":"string"}},"deny":{"type":"array","items":{"type":"string"}},"reason":{"type":"string"}},` +
		`"required":["run","approve"]}`),
	Annotations: &sdk.ToolAnnotations{DestructiveHint: new(bool), OpenWorldHint: new(bool)},
	Meta:        sdk.Meta{"ui": map[string]any{"visibility": []string{"app"}}},
}

var approvalTable = decode.TableOf[approvalArguments]()

// approvalArguments are the arguments of the approval tool.
type approvalArguments struct {
	Run     string   `json:"run"`
	Approve string   `json:"approve"`
	Allow   []string `json:"allow"` // the places of calls, as the answer names them
	Deny    []string `json:"deny"`
	Reason  string   `json:"reason"`
}

// showsApps reports whether the client of a request shows apps. It declares this in the _meta of each request, or before MCP 2026-07-28
// in initialize.
func showsApps(req sdk.Request) bool {
	var declared any
	params := req.GetParams()
	if params != nil && !reflect.ValueOf(params).IsNil() {
		declared = params.GetMeta()[sdk.MetaKeyClientCapabilities]
	}
	if declared == nil {
		hello, ok := params.(*sdk.InitializeParams)
		if ss, isServer := req.GetSession().(*sdk.ServerSession); !ok && isServer && ss != nil {
			hello = ss.InitializeParams()
		}
		if hello == nil || hello.Capabilities == nil {
			return false
		}
		declared = hello.Capabilities
	}
	types := gjson.GetBytes(marshal(declared), "extensions."+gjson.Escape(appsExtension)+".mimeTypes").Array()
	return slices.ContainsFunc(types, func(one gjson.Result) bool { return one.Str == appMIMEType })
}

// addApproval adds the approval app to the tools whose calls may have to be approved. Only clients that show apps see it.
func (t *Tools) addApproval() {
	for _, one := range t.tools {
		if one.Name == "chain" || one.dispatcher != nil {
			meta := raw.With(json.RawMessage(gjson.GetBytes(one.listed, "_meta").Raw), "ui", marshal(map[string]any{"resourceUri": approvalURI}))
			one.forApps = raw.With(one.listed, "_meta", meta)
		}
	}
	t.approval = &tool{Tool: approvalTool, listed: marshal(approvalTool), answer: (*call).decide}
	t.byName[approvalTool.Name] = t.approval
}

// listed returns the tools as a client reads them.
func (t *Tools) listed(apps bool) []json.RawMessage {
	items := make([]json.RawMessage, 0, len(t.tools)+1)
	for _, one := range t.tools {
		if apps && one.forApps != nil {
			items = append(items, one.forApps)
		} else {
			items = append(items, one.listed)
		}
	}
	if apps && t.approval != nil {
		items = append(items, t.approval.listed)
	}
	return items
}

// readsApproval reports whether a request reads the page of the approval app.
func readsApproval(method string, req sdk.Request) bool {
	params, ok := req.GetParams().(*sdk.ReadResourceParams)
	return ok && params != nil && method == "resources/read" && params.URI == approvalURI && showsApps(req)
}

// withResources adds to a greeting that there are resources.
func withResources(result sdk.Result) {
	switch r := result.(type) {
	case *sdk.InitializeResult:
		r.Capabilities = addResources(r.Capabilities)
	case *sdk.DiscoverResult:
		r.Capabilities = addResources(r.Capabilities)
	}
}

func addResources(c *sdk.ServerCapabilities) *sdk.ServerCapabilities {
	if c == nil || c.Resources != nil {
		return c
	}
	copied := *c
	copied.Resources = &sdk.ResourceCapabilities{}
	return &copied
}

// decide records the decision of a person in the page. The run stays where it is: the agent resumes it, so that the answer reaches the
// agent.
func (c *call) decide() *sdk.CallToolResult {
	var f approvalArguments
	if a := readArguments(c.args, approvalTable, &f); len(a.Faults.List) > 0 {
		return c.refuse(a.Faults.List...)
	}
	ruling := &chain.Ruling{Approve: f.Allow, Deny: f.Deny, By: c.caller.ID, Reason: f.Reason}
	waiting, refused := c.now.Engine.DecideOwn(c.ctx, f.Run, f.Approve, ruling, c.caller)
	if refused != nil {
		return c.refuse(refused)
	}
	result, _ := c.deliver(marshal(map[string]any{"run": f.Run, "waiting": len(waiting)}), 0)
	return result
}

// has reports whether the client of a request has a tool.
func (t *Tools) has(name string, req sdk.Request) bool {
	one := t.byName[name]
	return one != nil && (one != t.approval || showsApps(req))
}
