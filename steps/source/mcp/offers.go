package mcp

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/steps"
)

// Requests that are functions beside the tools, for servers that offer them.
const (
	methodRead   = "resources/read"
	methodPrompt = "prompts/get"
)

// offer is a request that is a function: its call is made, repeated and reported as that of a tool which reads.
type offer struct {
	method, function string // function is its name without the source
	offered          func(*sdk.ServerCapabilities) bool
	description      string
	input, output    string
}

var offers = []offer{
	{
		method: methodRead, function: "resources.read",
		offered: func(c *sdk.ServerCapabilities) bool { return c.Resources != nil },
		description: "Reads a resource of this server by its URI, such as that of a resource_link: JSON, text, or a block of binary data; several " +
			"contents are a list.",
		input:  `{"type":"object","additionalProperties":false,"required":["uri"],"properties":{"uri":{"type":"string"}}}`,
		output: `{}`,
	},
	{
		method: methodPrompt, function: "prompts.get",
		offered:     func(c *sdk.ServerCapabilities) bool { return c.Prompts != nil },
		description: "A prompt of this server, filled in: its messages.",
		input: `{"type":"object","additionalProperties":false,"required":["name"],"properties":{"name":{"type":"string"},` +
			`"arguments":{"type":"object","additionalProperties":{"type":"string"}}}}`,
		output: `{"type":"object","required":["messages"],"properties":{"description":{"type":"string"},` +
			`"messages":{"type":"array","items":{"type":"object","required":["role","content"],` +
			`"properties":{"role":{"type":"string"},"content":{}}}}}}`,
	},
}

// offersOf returns the functions beside a server's tools. A tool that has such a name keeps it. They count as local if all tools do.
func (s *Source) offersOf(capabilities *sdk.ServerCapabilities, tools []steps.Function) (functions []steps.Function) {
	if capabilities == nil {
		return nil
	}
	local := len(tools) > 0 && !slices.ContainsFunc(tools, func(f steps.Function) bool { return !f.Local })
	for i := range offers {
		o := &offers[i]
		if !o.offered(capabilities) {
			continue
		}
		t := &tool{name: o.method, method: o.method, function: s.options.Name + "." + o.function, effect: steps.Read}
		name := steps.FoldName(t.function)
		if j := slices.IndexFunc(tools, func(f steps.Function) bool { return steps.FoldName(f.Name) == name }); j >= 0 {
			s.warnf("its tool %s takes the name of the function for %s, which is left out", quoted(tools[j].Name), o.method)
			continue
		}
		functions = append(functions, steps.Function{
			Spec: steps.Spec{
				Name: t.function, Description: o.description, Input: json.RawMessage(o.input), Output: json.RawMessage(o.output),
				Effect: steps.Read, EffectDeclared: true, Local: local, ChainOnly: true,
				DefaultTimeout: s.options.CallTimeout, Patient: true,
			},
			Call:   func(ctx context.Context, args []byte) ([]byte, error) { return s.call(ctx, t, args) },
			Prompt: s.prompt(),
		})
	}
	return functions
}

// send sends the request of a call by the SDK: tools/call, or that of an offer with the arguments of the call.
func (c *connection) send(ctx context.Context, t *tool, call *sdk.CallToolParams, args []byte) (err error) {
	switch t.method {
	case methodRead:
		_, err = c.client.ReadResource(ctx, &sdk.ReadResourceParams{Meta: call.Meta, URI: gjson.GetBytes(args, "uri").Str})
	case methodPrompt:
		params := sdk.GetPromptParams{Meta: call.Meta, Name: gjson.GetBytes(args, "name").Str, Arguments: map[string]string{}}
		gjson.GetBytes(args, "arguments").ForEach(func(key, value gjson.Result) bool {
			params.Arguments[key.Str] = value.Str
			return true
		})
		_, err = c.client.GetPrompt(ctx, &params)
	default:
		_, err = c.client.CallTool(ctx, call)
	}
	return err
}

// stub returns the function that makes the small result which the SDK decodes in place of the real one.
func (t *tool) stub() func(gjson.Result) []byte {
	switch t.method {
	case methodRead:
		return noContents
	case methodPrompt:
		return noMessages
	}
	return noContent
}

func noContents(gjson.Result) []byte { return []byte(`{"contents":[]}`) }

func noMessages(gjson.Result) []byte { return []byte(`{"messages":[]}`) }

// answerWord says what a call is answered with.
func (t *tool) answerWord() string {
	switch t.method {
	case methodRead:
		return "a resource"
	case methodPrompt:
		return "a prompt"
	}
	return "the result of a tool"
}

// malformedOffer describes what is wrong with the result of an offer; "": nothing that matters here.
func malformedOffer(t *tool, result gjson.Result) (problem string) {
	switch {
	case t.method == methodRead && !result.Get("contents").IsArray():
		return "it holds no contents"
	case t.method == methodPrompt && !result.Get("messages").IsArray():
		return "it holds no messages"
	}
	return ""
}

// resourceValue returns the value of a resource: that of its contents, which are read as the blocks of a tool's result are.
func resourceValue(contents gjson.Result, keeper *blockKeeper) []byte {
	var blocks []byte
	contents.ForEach(func(_, one gjson.Result) bool {
		if len(blocks) > 0 {
			blocks = append(blocks, ',')
		}
		if text := one.Get("text"); text.Type == gjson.String {
			blocks = append(blocks, text.Raw...)
		} else {
			blocks = append(append(append(blocks, `{"type":"resource","resource":`...), one.Raw...), '}')
		}
		return true
	})
	return content(gjson.ParseBytes(append(append([]byte{'['}, blocks...), ']')), keeper)
}

// promptValue returns the value of a prompt: its description and messages, with binary data as blocks.
func promptValue(prompt gjson.Result, keeper *blockKeeper) []byte {
	var messages []byte
	prompt.Get("messages").ForEach(func(_, message gjson.Result) bool {
		var o objectBuilder
		o.copyMembers(message, "role")
		if block := message.Get("content"); block.Exists() {
			o.raw("content", string(wholeBlock(block, keeper)))
		}
		if len(messages) > 0 {
			messages = append(messages, ',')
		}
		messages = append(messages, o.end()...)
		return true
	})
	var o objectBuilder
	o.copyMembers(prompt, "description")
	o.raw("messages", "["+string(messages)+"]")
	return o.end()
}

// withoutTools reports whether a list that failed so is that of a server without tools, which offers something else.
func (c *connection) withoutTools(e *answerError) bool {
	offered := c.client.InitializeResult().Capabilities
	return e.code == jsonrpc.CodeMethodNotFound && offered != nil && offered.Tools == nil &&
		slices.ContainsFunc(offers, func(o offer) bool { return o.offered(offered) })
}
