package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/groups"
	"github.com/onecall-mcp/onecall/steps/schema"
)

// prompt is a saved chain that MCP clients show to people as a prompt.
type prompt struct {
	*sdk.Prompt
	function string
	listed   []byte
}

// promptsOf returns the prompts of a registry: the saved chains marked as such.
func promptsOf(functions *steps.Registry) []prompt {
	var chains []*steps.Entry
	for _, entry := range functions.All() {
		if saved := entry.Spec().Saved; saved != nil && saved.Prompt {
			chains = append(chains, entry)
		}
	}
	names := groups.FlatNames(chains, nil)
	prompts := make([]prompt, len(chains))
	for i, entry := range chains {
		shown := &sdk.Prompt{Name: names[entry.Spec().Name], Description: entry.Spec().Description}
		input := gjson.ParseBytes(entry.Spec().Input)
		input.Get("properties").ForEach(func(name, param gjson.Result) bool {
			shown.Arguments = append(shown.Arguments, &sdk.PromptArgument{Name: name.String(),
				Description: param.Get("description").Str, Required: entry.Requires(name.String())})
			return true
		})
		prompts[i] = prompt{shown, entry.Spec().Name, marshal(shown)}
	}
	return prompts
}

// refreshPrompts updates the prompts from the functions. The caller holds f.refreshing.
func (f *toolset) refreshPrompts(functions *steps.Registry) {
	var removed []string
	now := promptsOf(functions)
	for name := range f.prompts {
		if !slices.ContainsFunc(now, func(p prompt) bool { return p.Name == name }) {
			removed = append(removed, name)
		}
	}
	remaining := make(map[string]prompt, len(now))
	for _, p := range now {
		if was, known := f.prompts[p.Name]; !known || !bytes.Equal(was.listed, p.listed) || was.function != p.function {
			f.stateful.AddPrompt(p.Prompt, f.promptHandler(p.function))
			f.stateless.AddPrompt(p.Prompt, f.promptHandler(p.function))
		}
		remaining[p.Name] = p
	}
	if len(removed) > 0 {
		f.stateful.RemovePrompts(removed...)
		f.stateless.RemovePrompts(removed...)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.prompts = remaining
}

// hasPrompt reports whether a request is for one of onecall's own prompts.
func (f *toolset) hasPrompt(req sdk.Request) bool {
	params, ok := req.GetParams().(*sdk.GetPromptParams)
	if !ok || params == nil {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	_, has := f.prompts[params.Name]
	return has
}

// promptHandler returns a handler that answers with the call that runs a saved chain.
func (f *toolset) promptHandler(function string) sdk.PromptHandler {
	return func(_ context.Context, req *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
		entry, err := f.view().Registry().Resolve(function)
		if err != nil || entry.Spec().Name != function {
			return nil, invalidPrompt("no such prompt: list the prompts to see which there are")
		}
		args, problem := argumentsFor(entry, req.Params.Arguments)
		if problem != "" {
			return nil, invalidPrompt(problem)
		}
		text := fmt.Sprintf("Run the saved chain %s: call the tool chain with exactly these arguments, and tell me what it answers:\n"+
			`{"steps":[{"fn":%s,"args":%s}]}`, function, marshal(function), args)
		return &sdk.GetPromptResult{Description: entry.Spec().Description,
			Messages: []*sdk.PromptMessage{{Role: "user", Content: &sdk.TextContent{Text: text}}}}, nil
	}
}

func invalidPrompt(why string) error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: why}
}

// argumentsFor converts the texts that a person filled in to a chain's arguments. A text that is valid JSON is taken as JSON, unless
// the argument is declared as a string. problem is the first fault of the arguments; "": they are accepted.
func argumentsFor(entry *steps.Entry, filled map[string]string) (args json.RawMessage, problem string) {
	values := map[string]json.RawMessage{}
	for name, text := range filled {
		if text == "" && !entry.Requires(name) {
			continue // left open
		}
		kind := gjson.GetBytes(entry.Spec().Input, "properties."+gjson.Escape(name)+".type").Str
		value := marshal(text)
		if compact, err := schema.Compact([]byte(text)); err == nil && kind != "string" {
			value = compact
		}
		values[name] = value
	}
	args = marshal(values)
	if faults := entry.Check(args, nil); len(faults) > 0 {
		return nil, faults[0].Message
	}
	return args, ""
}
