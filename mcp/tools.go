package mcp

import (
	_ "embed"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/dispatch"
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
	"chain":  (*call).chain,
	"search": (*call).search,
	"info":   (*call).info,
}

// ownToolNames are the names that no other tool may have.
var ownToolNames = []string{"chain", "search", "info"}

// owned lists the own tools for a caller.
func (f *face) owned() []*tool {
	var listed []struct {
		Name, Description string
		InputSchema       json.RawMessage
		Annotations       *sdk.ToolAnnotations
	}
	if err := json.Unmarshal(ownTools, &listed); err != nil {
		panic(err) // it is part of the program
	}
	tools := make([]*tool, len(listed))
	for i, l := range listed {
		if l.Name == "chain" {
			l.InputSchema = f.hoisted(l.InputSchema)
		}
		tools[i] = &tool{answer: answers[l.Name], Tool: &sdk.Tool{Name: l.Name, Description: l.Description, InputSchema: l.InputSchema, Annotations: l.Annotations}}
	}
	return tools
}

// hoisted declares the names that stand beside a chain's fields.
func (f *face) hoisted(schema json.RawMessage) json.RawMessage {
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

// offer is what the face shows of a registry's functions.
func (f *face) offer(functions *steps.Registry) *offer {
	o := &offer{of: functions, tools: f.owned(), byName: map[string]*tool{}}
	reserved := ownToolNames
	rest := functions.All()
	var arranged *dispatch.Arrangement
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
	flat := dispatch.FlatNames(rest, reserved)
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
