package mcp

import (
	"context"
	"slices"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/groups"
)

// Limits in tokens for the texts of dispatchers.
const (
	describeTokens = 24   // description, without the operator's own words
	helpTokens     = 2000 // answer to a call for help
)

// dispatcher returns the tool for a group of functions.
func (f *toolset) dispatcher(d *groups.Dispatcher) *tool {
	count := func(text []byte) int { return f.server.opts().Counter.Count(text, -1) }
	shown := &sdk.Tool{Name: d.Name, Description: d.Description(describeTokens, count), InputSchema: d.InputSchema()}
	return &tool{Tool: shown, answer: func(c *call) *sdk.CallToolResult { return c.dispatch(d) }, dispatcher: d}
}

// dispatch answers a dispatcher's call: help, a fetch, or a function call.
func (c *call) dispatch(d *groups.Dispatcher) *sdk.CallToolResult {
	r, faults := d.Read(c.args)
	if mayChange(r, faults) && c.view.Starting() != nil {
		d, r, faults = c.awaitDispatcher(d)
	}
	if len(faults) > 0 {
		return c.refuse(faults...)
	}
	c.caller.Warnings = append(c.caller.Warnings, r.Warnings...)
	switch {
	case r.Fetch != nil:
		c.args = r.Fetch
		return c.run()
	case r.Help != nil:
		return c.help(d, r)
	}
	if f := misplacedToken(r.Entry, r.Args); f != nil {
		return c.refuse(f.Under(r.At))
	}
	return c.call(&chain.Call{
		Function: r.Entry.Spec().Name, Args: r.Args, At: r.At, Verify: r.Verify, Lite: r.Lite, MaxTotalTokens: r.MaxTotalTokens,
	})
}

// mayChange reports whether starting sources could change the outcome of a request.
func mayChange(r *groups.Request, faults []*fault.Error) bool {
	if len(faults) == 0 {
		return r.Help != nil
	}
	return slices.ContainsFunc(faults, func(f *fault.Error) bool { return f.Code == fault.UnknownFunction })
}

// awaitDispatcher keeps reading the request while sources are starting: a call until its function is available, help for a moment.
func (c *call) awaitDispatcher(d *groups.Dispatcher) (now *groups.Dispatcher, r *groups.Request, faults []*fault.Error) {
	ctx := c.ctx
	read := func() {
		c.toolset.refresh()
		if t := c.toolset.offerOf(c.clientView).byName[d.Name]; t != nil && t.dispatcher != nil {
			now = t.dispatcher
		}
		r, faults = now.Read(c.args)
	}
	now = d
	if read(); len(faults) == 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, searchWait)
		defer cancel()
	}
	steps.Await(ctx, c.view, func(*steps.Registry) bool {
		read()
		return !mayChange(r, faults)
	})
	read()
	return now, r, faults
}

// help describes what a dispatcher can do. It only names the functions whose signatures the client already has.
func (c *call) help(d *groups.Dispatcher, r *groups.Request) *sdk.CallToolResult {
	entries := map[string]*steps.Entry{}
	for _, entry := range d.Entries() {
		entries[entry.Spec().Name] = entry
	}
	limit := c.limit(helpTokens, r.MaxTotalTokens)
	o := &groups.HelpOptions{
		Limit: limit, Lite: c.now.Lite,
		Taught: func(function string) bool { return c.session.knows(entries[function], false) },
		Count:  func(text []byte) int { return c.now.Counter.Count(text, limit) },
	}
	if r.Lite != nil {
		o.Lite = *r.Lite
	}
	answer, taught := d.Help(r.Help, o)
	result, whole := c.deliver(answer, r.MaxTotalTokens)
	if whole {
		for _, function := range taught {
			c.session.learn(entries[function], false)
		}
	}
	return result
}
