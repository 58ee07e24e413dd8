package mcp

import (
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/dispatch"
)

// Bounds of what a dispatcher says, in tokens.
const (
	describeTokens = 24   // of its description, the operator's own words not counted
	helpTokens     = 2000 // of an answer to a call for help
)

// dispatcher shows a group of functions as one tool.
func (f *face) dispatcher(d *dispatch.Dispatcher) *tool {
	count := func(text []byte) int { return f.server.o.Counter.Count(text, -1) }
	shown := &sdk.Tool{Name: d.Name, Description: d.Description(describeTokens, count), InputSchema: d.InputSchema()}
	return &tool{Tool: shown, answer: func(c *call) *sdk.CallToolResult { return c.dispatch(d) }}
}

// dispatch answers a dispatcher's call: help, a fetch, or the call of a function.
func (c *call) dispatch(d *dispatch.Dispatcher) *sdk.CallToolResult {
	r, faults := d.Read(c.args)
	switch {
	case len(faults) > 0:
		return c.refuse(faults...)
	case r.Fetch != nil:
		return c.run(r.Fetch)
	case r.Help != nil:
		return c.help(d, r)
	}
	return c.call(&chain.Call{
		Function: r.Entry.Spec().Name, Args: r.Args, At: r.At, Verify: r.Verify, Lite: r.Lite, MaxTotalTokens: r.MaxTotalTokens,
	})
}

// help answers what a dispatcher can do. Signatures that the client was given before are only named.
func (c *call) help(d *dispatch.Dispatcher, r *dispatch.Request) *sdk.CallToolResult {
	entries := map[string]*steps.Entry{}
	for _, entry := range d.Entries() {
		entries[entry.Spec().Name] = entry
	}
	o := &dispatch.HelpOptions{
		Limit: helpTokens, Lite: c.face.server.o.Lite,
		Taught: func(function string) bool { return c.session.knows(entries[function]) },
		Count:  func(text []byte) int { return c.face.server.o.Counter.Count(text, helpTokens) },
	}
	if r.Lite != nil {
		o.Lite = *r.Lite
	}
	answer, given := d.Help(r.Help, o)
	for _, function := range given {
		c.session.learn(entries[function])
	}
	return c.deliver(answer, 0)
}
