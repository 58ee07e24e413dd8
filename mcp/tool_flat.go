package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/mcp/internal/raw"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/schema"
)

// flat returns a function's own tool; a nonempty legacy is put before its description.
func (f *toolset) flat(name string, entry *steps.Entry, legacy string) *tool {
	spec := entry.Spec()
	var listed json.RawMessage
	shown := &sdk.Tool{Name: name, Description: legacy + spec.Description, InputSchema: rootObject(spec.Input)}
	if answersToken(spec) {
		shown.InputSchema = withFetch(rootObject(spec.Input))
	}
	if listing := gjson.ParseBytes(spec.Listing); listing.IsObject() {
		shown.Title = listing.Get("title").String()
		o := f.server.opts()
		if listing.Get("outputSchema").IsObject() && len(spec.Output) > 0 && passesVerbatim(o, spec) && o.SessionTokens == 0 {
			shown.OutputSchema = f.server.outputSchema(name, spec.Output)
		}
		listed = listingOf(shown, listing)
	} else {
		shown.Annotations = hintsOf(spec)
	}
	return &tool{Tool: shown, listed: listed, answer: func(c *call) *sdk.CallToolResult { return c.flat(spec.Name) }}
}

// outputSchema returns the output schema of a tool as clients accept it; nil if they do not, which is logged once.
func (s *Server) outputSchema(name string, written json.RawMessage) any {
	mended, problem := schema.PortableOutput(written)
	if problem == "" {
		return json.RawMessage(mended)
	}
	if _, logged := s.listWarnings.LoadOrStore(name+"\x00"+problem, true); !logged {
		s.opts().Log.Warn("a tool is listed without its output schema, which clients would refuse", "tool", name, "problem", problem)
	}
	return nil
}

// memberRules are the rules for the members of an upstream's tool that clients get as it wrote them.
var memberRules = map[string]raw.Rule{"annotations": raw.ToolAnnotations, "icons": raw.Icons, "_meta": raw.Meta}

// listingOf returns a tool as clients read it, with the annotations, icons and _meta of the upstream's listing.
func listingOf(shown *sdk.Tool, listing gjson.Result) json.RawMessage {
	copied := *shown
	copied.Annotations = nil
	listed := marshal(&copied)
	for _, key := range []string{"annotations", "icons", "_meta"} {
		if value := memberRules[key](listing.Get(key)); value != nil {
			listed = raw.With(listed, key, value)
		}
	}
	return listed
}

// hintsOf returns the annotations for a function's effects.
func hintsOf(spec *steps.Spec) *sdk.ToolAnnotations {
	destroys := spec.Effect == steps.Destroy
	hints := &sdk.ToolAnnotations{ReadOnlyHint: spec.Effect == steps.Read, IdempotentHint: spec.Idempotent}
	if !hints.ReadOnlyHint {
		hints.DestructiveHint = &destroys
	}
	if openWorld := false; spec.Local {
		hints.OpenWorldHint = &openWorld
	}
	return hints
}

// answersToken reports whether a function is configured to answer less than its whole result, with a token for the rest.
func answersToken(spec *steps.Spec) bool { return spec.Heavy == "always" || spec.Answer != nil }

// passesVerbatim reports whether a function's results are passed on unchanged: without budget, probe, excerpt and lean form. Those of a
// function that needs approval or that flow rules are about are not, because the engine must run its calls.
func passesVerbatim(o *Options, spec *steps.Spec) bool {
	return !o.Processed && !answersToken(spec) && !o.Engine.MustApprove(spec) && !o.Engine.MustPlan(spec)
}

// flat answers the call of one function.
func (c *call) flat(name string) *sdk.CallToolResult {
	if isFetch(c.args, false) {
		return c.fetch()
	}
	entry, err := c.view.Registry().Resolve(name)
	if err != nil {
		f, _ := fault.As(err)
		return c.refuse(f)
	}
	c.function = entry
	args, verify, faults := c.splitOptions(entry)
	if f := misplacedToken(entry, args); f != nil {
		faults = append(faults, f)
	}
	switch {
	case len(faults) > 0:
		return c.refuse(faults...)
	case entry.Spec().Saved == nil && passesVerbatim(&c.now.Options, entry.Spec()):
		return c.pass(entry, args)
	}
	lite := true
	return c.call(&chain.Call{Function: name, Args: args, Lite: &lite, Verify: verify})
}

// splitOptions removes lite and verify from the arguments of a function that does not declare them. It returns the other arguments and
// the value of verify. lite is dropped: an answer that is not passed on verbatim is lite anyway.
func (c *call) splitOptions(entry *steps.Entry) (args []byte, verify bool, faults []*fault.Error) {
	root := gjson.ParseBytes(c.args)
	undeclared := func(name string) gjson.Result {
		if entry.Argument(name) != "" {
			return gjson.Result{}
		}
		return root.Get(name)
	}
	lite, verified := undeclared("lite"), undeclared("verify")
	if !lite.Exists() && !verified.Exists() {
		return c.args, false, nil
	}
	for name, value := range map[string]gjson.Result{"lite": lite, "verify": verified} {
		if value.Exists() && !value.IsBool() {
			f := fault.New(fault.BadRequest, "%s must be true or false", name)
			f.At = "/" + name
			faults = append(faults, f)
		}
	}
	args = []byte{'{'}
	root.ForEach(func(key, value gjson.Result) bool {
		if key.Str == "lite" && lite.Exists() || key.Str == "verify" && verified.Exists() {
			return true
		}
		if len(args) > 1 {
			args = append(args, ',')
		}
		args = append(append(append(args, key.Raw...), ':'), value.Raw...)
		return true
	})
	return append(args, '}'), verified.Bool(), faults
}

// pass calls a function and returns its source's result unchanged. The client gets the result of an MCP server as the server wrote it.
func (c *call) pass(entry *steps.Entry, args []byte) *sdk.CallToolResult {
	spec := entry.Spec()
	ctx, end := c.now.Engine.Observe(c.context(c.args), &chain.RequestInfo{
		Kind: chain.KindPass, Caller: c.caller.ID, Steps: 1, Bytes: len(args),
	})
	if spec.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, spec.Timeout)
		defer cancel()
	}
	if v := c.clientView; v != nil {
		ctx = v.upstreams.Within(ctx, otherParams(c.request))
	}
	var raw []byte
	callbacks := &steps.Callbacks{Caller: c.caller.ID, Functions: c.view.Registry(),
		Verbatim: func(result []byte) { raw = slices.Clone(result) }}
	if c.reporter != nil {
		c.reporter.addCallbacks(callbacks)
	}
	passed := c.now.Engine.Pass(steps.WithCallbacks(ctx, callbacks), entry, args, c.caller.ID)
	value, err := passed.Result, passed.Err
	f, _ := fault.As(err)
	end(&chain.RequestEnd{Err: f, Function: spec.Name, Calls: 1, Bytes: max(len(raw), len(value))})
	if c.mayPass(raw, err) && setVerbatim(c.ctx, raw, err) {
		c.countPassed(raw, err)
		return &sdk.CallToolResult{}
	}
	if err != nil {
		return c.answer(c.now.Engine.AnswerFailure(c.ctx, &passed, c.caller))
	}
	return c.reduced(c.valueResult(entry, value), raw, value)
}

// valueResult returns the result for a value that did not come from an MCP server: from another source, or from the call cache.
func (c *call) valueResult(entry *steps.Entry, value []byte) *sdk.CallToolResult {
	text := string(value)
	if parsed := gjson.ParseBytes(value); parsed.Type == gjson.String {
		text = parsed.Str
	}
	result := &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}}
	if len(entry.Spec().Output) > 0 && bytes.HasPrefix(value, []byte("{")) { // before 2026-07-28, structured content is an object
		result.StructuredContent = json.RawMessage(value)
	}
	return result
}
