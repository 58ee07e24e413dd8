package mcp_test

import (
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/internal/protocol"
	"github.com/onecall-mcp/onecall/steps"
	mcpsource "github.com/onecall-mcp/onecall/steps/source/mcp"
)

func greetingOf(capabilities, rest string) string {
	return `{"jsonrpc":"2.0","id":THIS,"result":{"protocolVersion":"2025-11-25","capabilities":` + capabilities + `,` + rest +
		`"serverInfo":{"name":"s","version":"1","icons":[]}}}`
}

// PHP writes an empty object as an empty array. Where MCP has an object, that is what is meant.
func TestEmptyObjectsOfPHP(t *testing.T) {
	t.Parallel()
	for _, greeting := range []string{
		greetingOf(`[]`, ""), greetingOf(`{"tools":[]}`, `"_meta":[],`), greetingOf(`{"tools":{},"logging":[ ],"experimental":{"x":[]},"prompts":[]}`, ""),
	} {
		eachScript(t, script{
			"initialize": greeting,
			"tools/list": `{"jsonrpc":"2.0","id":THIS,"result":{"_meta":[],"tools":[{"name":"a","inputSchema":[],"annotations":[],"_meta":[],` +
				`"execution":[],"outputSchema":{"type":"object"}}]}}`,
			"tools/call": `{"jsonrpc":"2.0","id":THIS,"result":{"content":[],"structuredContent":[],"_meta":[]}}`,
		}, func(t *testing.T, _ string, s *mcpsource.Source) {
			await(t, s, steps.StateReady)
			spec := function(t, s, "shelf.a").Spec
			if got := mustCall(t, s, "shelf.a", `{}`); got != `{}` || string(spec.Input) != `{"type":"object"}` {
				t.Errorf("got %s, input %s, want an object of no members for both", got, spec.Input)
			}
			if want := `{"name":"a","outputSchema":{"type":"object"}}`; string(spec.Listing) != want {
				t.Errorf("got the listing %s, want %s", spec.Listing, want)
			}
		})
	}
}

// What passes to a client is mended too, but only where MCP has an object.
func TestEmptyObjectsForClients(t *testing.T) {
	t.Parallel()
	const sent = `{"_meta":[],"content":[{"type":"text","text":"\"_meta\":[]","annotations":[ ],"_meta":{"x":[]}}],` +
		`"structuredContent":{"annotations":[],"_meta":[]},"isError":false}`
	const want = `{"_meta":{},"content":[{"type":"text","text":"\"_meta\":[]","annotations":{},"_meta":{"x":[]}}],` +
		`"structuredContent":{"annotations":[],"_meta":[]},"isError":false}`
	s := openReady(t, &mcpsource.Options{Name: "shelf", Protocol: protocol.Stateful, AsProxy: true, URL: listen(t, script{
		"initialize":     greetingOf(`{"tools":[],"resources":[]}`, ""),
		"tools/call":     `{"jsonrpc":"2.0","id":THIS,"result":` + sent + `}`,
		"resources/list": `{"jsonrpc":"2.0","id":THIS,"result":{"resources":[{"uri":"a://b","name":"b","annotations":[],"_meta":[]}]}}`,
	})})
	l := openSession(t, s, &mcpsource.DownstreamClient{Protocol: protocol.Stateful})
	if got, err := callTool(t, l, "shelf.a", `{}`, ""); err != nil || got != want {
		t.Errorf("the call got %s, %v, want %s", got, err, want)
	}
	if got := gjson.Get(l.do(t, "resources/list", ""), "resources.0").Raw; got != `{"uri":"a://b","name":"b","annotations":{},"_meta":{}}` {
		t.Errorf("the list has %s, want {} for annotations and _meta", got)
	}
}

// A greeting that cannot be read is told in the words of JSON.
func TestMalformedGreeting(t *testing.T) {
	t.Parallel()
	for greeting, want := range map[string]string{
		greetingOf(`"all"`, ""):                        "capabilities must be an object, not a string",
		greetingOf(`{"tools":[1]}`, ""):                "capabilities.tools must be an object, not an array",
		greetingOf(`{}`, `"instructions":5,`):          "instructions must be a string, not a number",
		`{"jsonrpc":"2.0","id":THIS,"result":"hello"}`: "it must be an object, not a string",
	} {
		eachScript(t, script{"initialize": greeting}, func(t *testing.T, _ string, s *mcpsource.Source) {
			if got := await(t, s, steps.StateRetrying).Error.Message; !strings.Contains(got, want) || strings.Contains(got, "Go ") {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}
