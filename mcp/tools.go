package mcp

import (
	_ "embed"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/mcp/internal/raw"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/groups"
)

// instructions tell a client's model what this server is for; internal/gen writes them from docs/agents.md.
//
//go:embed instructions.txt
var instructions string

// builtinTool is a tool on every surface. Its schema is in tools.json.
type builtinTool struct {
	name, title, description string
	answer                   func(*call) *sdk.CallToolResult
}

// builtinTools are the tools on every surface, as clients read them. Every session pays for each word: TestToolSizes bounds them,
// and TestToolExample runs the example.
var builtinTools = []builtinTool{
	{
		"chain", "Chain", "Run function calls as one pipeline. Only the last result, or `return`, comes back.\n" +
			"In args and return, a string that is exactly \"$0.items[0].id\" becomes that value of step 0's result. " +
			"Also $prev, $item (in forEach), a step's id; " +
			"[-1] is the last, [*] maps. Inside longer text write ${$0.name}; $$ is a dollar.\n" +
			`Example: {"steps":[{"fs.find":{"pattern":"*.md"}},` +
			`{"fs.cat":{"path":"$item","head":3},"forEach":"$0.files"}],"return":"$1[*].text"}` +
			"\nA large result of any tool is a preview with a continuation_token: send it with a mode.", (*call).run,
	},
	{"search", "Search", "Find functions by words. names: just these (\"chain\": all its fields); schema: whole schemas.", (*call).search},
	{"info", "Info", "Version, sources, limits.", (*call).info},
}

// readTool runs chains that only read (Options.ReadTool). It takes the arguments of chain.
var readTool = builtinTool{
	"chain_read", "Chain that only reads", "As chain, with the same arguments, of functions that only read.", (*call).chainRead,
}

// isBuiltin reports whether name is a builtin tool.
func isBuiltin(name string) bool {
	return slices.ContainsFunc(builtinTools, func(t builtinTool) bool { return t.name == name })
}

// hostHints keep hosts from deferring these tools: the others are found through them.
var hostHints = sdk.Meta{"anthropic/alwaysLoad": true}

// reach is what a caller can affect.
type reach struct {
	writes    bool // some function does more than read
	destroys  bool
	openWorld bool // some function may reach beyond this machine
	waits     bool // calls of some function need approval
}

// reachOf returns the reach of a view. For sources whose functions are not known it assumes whatever the caller could use.
func (f *toolset) reachOf(view *steps.View) (can reach) {
	mustApprove := func(*steps.Spec) bool { return false }
	if f.server != nil {
		mustApprove = f.server.opts().Engine.MustApprove
		can.waits = f.server.opts().Engine.AsksOfFlows()
	}
	add := func(spec *steps.Spec) {
		can.waits = can.waits || mustApprove(spec)
		can.writes = can.writes || spec.Effect != steps.Read
		can.destroys = can.destroys || spec.Effect == steps.Destroy
		can.openWorld = can.openWorld || !spec.Local
	}
	for _, entry := range view.Registry().All() {
		add(entry.Spec())
	}
	down, locked := steps.AbsentSources(view)
	for _, source := range append(down, locked...) {
		for _, effect := range []steps.Effect{steps.Read, steps.Write, steps.Destroy} {
			if spec := view.SampleSpec(source, effect); spec != nil {
				add(spec)
			}
		}
	}
	return can
}

// listBuiltins returns the builtin tools for a caller's reach.
func (f *toolset) listBuiltins(can reach) []*tool {
	var tools []*tool
	add := func(t *builtinTool, schema json.RawMessage, hints map[string]bool) {
		shown := &sdk.Tool{Name: t.name, Title: t.title, Description: t.description, InputSchema: schema, Meta: hostHints}
		tools = append(tools, &tool{answer: t.answer, Tool: shown, listed: raw.Before(marshal(shown), "annotations", marshal(hints))})
	}
	reads := map[string]bool{"readOnlyHint": true, "openWorldHint": can.openWorld}
	for i := range builtinTools {
		t := &builtinTools[i]
		if t.name != "chain" {
			add(t, schemaOfTool(t.name).InputSchema, map[string]bool{"readOnlyHint": true})
			continue
		}
		schema, hints := f.withHoisted(schemaOfTool(t.name).InputSchema), reads
		if can.writes {
			hints = map[string]bool{"readOnlyHint": false, "destructiveHint": can.destroys, "openWorldHint": can.openWorld}
		}
		add(t, schema, hints)
		if f.server != nil && f.server.opts().ReadTool {
			add(&readTool, schema, reads)
		}
	}
	return tools
}

// withHoisted returns the schema of chain with the arguments that chains take in addition to their own fields (Options.Hoist).
func (f *toolset) withHoisted(schema json.RawMessage) json.RawMessage {
	if f.server == nil || len(f.server.opts().Hoist) == 0 {
		return schema
	}
	var root map[string]json.RawMessage
	var properties map[string]json.RawMessage
	if json.Unmarshal(schema, &root) != nil || json.Unmarshal(root["properties"], &properties) != nil {
		panic("the schema of chain is part of the program")
	}
	for _, name := range f.server.opts().Hoist {
		properties[name] = json.RawMessage(`{}`)
	}
	root["properties"] = marshal(properties)
	return marshal(root)
}

// chainRead runs a chain that only reads.
func (c *call) chainRead() *sdk.CallToolResult {
	c.caller.Override.ReadOnly = true
	return c.run()
}

// offer returns the toolset's tools for a view.
func (f *toolset) offer(view *steps.View) *Tools {
	functions := view.Registry()
	can := f.reachOf(view)
	o := &Tools{registry: functions, tools: f.listBuiltins(can), byName: map[string]*tool{}}
	reserved := []string{readTool.name, approvalTool.Name}
	for _, t := range builtinTools {
		reserved = append(reserved, t.name)
	}
	rest := slices.DeleteFunc(functions.All(), func(e *steps.Entry) bool { return e.Spec().ChainOnly })
	var arranged *groups.Arrangement
	if f.surface == SurfaceDispatch || f.surface == SurfaceHybrid {
		arranged = f.server.opts().Dispatch.Arrange(functions)
		for _, d := range arranged.Dispatchers {
			o.tools = append(o.tools, f.dispatcher(d))
			reserved = append(slices.Clip(reserved), d.Name)
		}
	}
	switch f.surface {
	case SurfaceChain:
		rest = savedTools(rest, nil)
	case SurfaceDispatch:
		rest = append(slices.Clip(arranged.Rest), savedTools(rest, arranged.Rest)...)
	}
	flat := groups.FlatNames(rest, reserved)
	for _, entry := range rest {
		legacy := ""
		if f.surface == SurfaceHybrid {
			if dispatcher := arranged.DispatcherOf(entry.Spec().Name); dispatcher != nil {
				legacy = "[Legacy: prefer " + dispatcher.Name + "] "
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
	if can.waits {
		o.addApproval()
	}
	if f.surface == SurfaceDispatch {
		o.addGrouped(functions, arranged)
	}
	return o
}

// addGrouped makes the functions of dispatchers callable by the names that they have on flat surfaces.
func (t *Tools) addGrouped(functions *steps.Registry, arranged *groups.Arrangement) {
	var grouped []*steps.Entry
	for _, entry := range functions.All() {
		if arranged.DispatcherOf(entry.Spec().Name) != nil {
			grouped = append(grouped, entry)
		}
	}
	for function, name := range groups.FlatNames(grouped, slices.Collect(maps.Keys(t.byName))) {
		if t.byName[name] == nil {
			t.byName[name] = &tool{Tool: &sdk.Tool{Name: name}, answer: func(c *call) *sdk.CallToolResult { return c.flat(function) }}
		}
	}
}

// savedTools returns the saved chains that are tools on every surface, without those already shown.
func savedTools(all, shown []*steps.Entry) (list []*steps.Entry) {
	for _, entry := range all {
		if saved := entry.Spec().Saved; saved != nil && saved.Tool && !slices.Contains(shown, entry) {
			list = append(list, entry)
		}
	}
	return list
}

func itoa(n int) string { return strconv.Itoa(n) }
