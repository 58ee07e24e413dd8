package mcp

import (
	_ "embed"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/mcp/internal/raw"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/groups"
)

// ownTools are the tools that every surface has, as clients read them. Each word of them is paid for by every session of
// every client: TestToolSizes bounds them, and TestToolExample runs the example in them.
//
//go:embed tools.json
var ownTools []byte

// instructions tell a client's model what this server is for.
const instructions = "One tool instead of many: find functions with `search`, then do the whole job in one `chain` call, whose steps " +
	"hand results on by reference ($0.path), so that only the final result comes back. Prefer one chain over several calls; " +
	"ask for only what you need with `return`. A failed chain names the step, the place and the remedy: correct it and send it again."

// answers are what answers the calls of the own tools.
var answers = map[string]func(*call) *sdk.CallToolResult{
	"chain":    (*call).chain,
	"search":   (*call).search,
	"info":     (*call).info,
	chainReads: (*call).chainRead,
}

// ownToolNames are the names that no other tool may have.
var ownToolNames = []string{"chain", "search", "info"}

// chainReads is the tool that runs chains which only read, where Options.ReadTool has it.
const chainReads = "chain_read"

// titles are what people read of the own tools.
var titles = map[string]string{"chain": "Chain", "search": "Search", "info": "Info", chainReads: "Chain that only reads"}

// hostHints have a host that defers tools not defer these: they are how the others are found.
var hostHints = sdk.Meta{"anthropic/alwaysLoad": true}

// owned lists the own tools for a caller that can do so much.
func (f *toolset) owned(reach steps.Reach) []*tool {
	var listed []struct {
		Name, Description string
		InputSchema       json.RawMessage
	}
	if err := json.Unmarshal(ownTools, &listed); err != nil {
		panic(err) // it is part of the program
	}
	var tools []*tool
	add := func(name, description string, schema json.RawMessage, hints map[string]bool) {
		shown := &sdk.Tool{Name: name, Title: titles[name], Description: description, InputSchema: schema, Meta: hostHints}
		tools = append(tools, &tool{answer: answers[name], Tool: shown, listed: raw.Before(marshal(shown), "annotations", marshal(hints))})
	}
	reads := map[string]bool{"readOnlyHint": true, "openWorldHint": reach.Outside}
	for _, l := range listed {
		if l.Name != "chain" {
			add(l.Name, l.Description, l.InputSchema, map[string]bool{"readOnlyHint": true})
			continue
		}
		schema, hints := f.hoisted(l.InputSchema), reads
		if reach.Writes {
			hints = map[string]bool{"readOnlyHint": false, "destructiveHint": reach.Destroys, "openWorldHint": reach.Outside}
		}
		add(l.Name, l.Description, schema, hints)
		if f.server != nil && f.server.o().ReadTool {
			add(chainReads, "As chain, with the same arguments, of functions that only read.", schema, reads)
		}
	}
	return tools
}

// hoisted declares the names that stand beside a chain's fields.
func (f *toolset) hoisted(schema json.RawMessage) json.RawMessage {
	if f.server == nil || len(f.server.o().Hoist) == 0 {
		return schema
	}
	var root map[string]json.RawMessage
	var properties map[string]json.RawMessage
	if json.Unmarshal(schema, &root) != nil || json.Unmarshal(root["properties"], &properties) != nil {
		panic("the schema of chain is part of the program")
	}
	for _, name := range f.server.o().Hoist {
		properties[name] = json.RawMessage(`{}`)
	}
	root["properties"] = marshal(properties)
	return marshal(root)
}

// chain runs a chain.
func (c *call) chain() *sdk.CallToolResult { return c.run(c.args) }

// chainRead runs a chain that only reads.
func (c *call) chainRead() *sdk.CallToolResult {
	c.caller.Override.ReadOnly = true
	return c.run(c.args)
}

// offer is what the toolset shows of a view's functions.
func (f *toolset) offer(view *steps.View) *Tools {
	functions := view.Registry()
	o := &Tools{of: functions, tools: f.owned(view.Reach()), byName: map[string]*tool{}}
	reserved := append(slices.Clip(ownToolNames), chainReads)
	rest := functions.All()
	var arranged *groups.Arrangement
	if f.surface == SurfaceDispatch || f.surface == SurfaceHybrid {
		arranged = f.server.o().Dispatch.Arrange(functions)
		for _, d := range arranged.Dispatchers {
			o.tools = append(o.tools, f.dispatcher(d))
			reserved = append(slices.Clip(reserved), d.Name)
		}
	}
	switch f.surface {
	case SurfaceChain:
		rest = nil
	case SurfaceDispatch:
		rest = arranged.Rest
	}
	flat := groups.FlatNames(rest, reserved)
	for _, entry := range rest {
		legacy := ""
		if f.surface == SurfaceHybrid {
			if owner := arranged.Owner(entry.Spec().Name); owner != nil {
				legacy = "[Legacy: prefer " + owner.Name + "] "
			}
		}
		o.tools = append(o.tools, f.flat(flat[entry.Spec().Name], entry, legacy))
	}
	slices.SortFunc(o.tools, func(a, b *tool) int { return strings.Compare(a.Name, b.Name) })
	for _, t := range o.tools {
		if t.listed == nil {
			t.listed = marshal(t.Tool)
		}
		o.byName[t.Name] = t
	}
	return o
}

func itoa(n int) string { return strconv.Itoa(n) }
