package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/protocol"
	"github.com/onecall-mcp/onecall/steps"
	mcpsource "github.com/onecall-mcp/onecall/steps/source/mcp"
)

// offeringServer is a server of the SDK with resources and prompts. Its tool make makes another resource, and links to it.
func offeringServer() *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "offering", Version: "1"}, nil)
	resource := func(uri string, contents ...*sdk.ResourceContents) {
		for _, one := range contents {
			one.URI = uri
		}
		contents = slices.Grow(contents, 1) // not nil
		s.AddResource(&sdk.Resource{Name: uri, URI: uri}, func(_ context.Context, r *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
			if token := r.Params.GetProgressToken(); token != nil {
				_ = r.Session.NotifyProgress(context.Background(), &sdk.ProgressNotificationParams{ProgressToken: token, Progress: 1, Total: 2})
			}
			return &sdk.ReadResourceResult{Contents: contents}, nil
		})
	}
	text := func(text string) *sdk.ResourceContents { return &sdk.ResourceContents{Text: text} }
	blob := func() *sdk.ResourceContents {
		return &sdk.ResourceContents{MIMEType: "image/png", Blob: []byte("\x89PNG")}
	}
	resource("a://text", text("hi"))
	resource("a://json", text(`{"n": 12345678901234567890}`))
	resource("a://blob", blob())
	resource("a://folder", text("one"), text(`["two"]`), blob())
	resource("a://nothing")
	s.AddTool(&sdk.Tool{Name: "make", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			resource("a://made", text("made"))
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.ResourceLink{Name: "made", URI: "a://made"}}}, nil
		})
	s.AddPrompt(&sdk.Prompt{Name: "review", Arguments: []*sdk.PromptArgument{{Name: "of", Required: true}}},
		func(_ context.Context, r *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
			of := r.Params.Arguments["of"]
			if of == "" {
				return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "of is missing"}
			}
			return &sdk.GetPromptResult{Description: "a review", Messages: []*sdk.PromptMessage{
				{Role: "user", Content: &sdk.TextContent{Text: `["` + of + `"]`}},
				{Role: "assistant", Content: &sdk.ImageContent{MIMEType: "image/png", Data: []byte("\x89PNG")}},
			}}, nil
		})
	return s
}

// offering are the ways to reach the offering server, in each version of MCP.
var offering = map[string]func(t *testing.T) *mcpsource.Options{
	"stdio": func(t *testing.T) *mcpsource.Options { return childOptions(t, "offering") },
	"stdio 2025-11-25": func(t *testing.T) *mcpsource.Options {
		o := childOptions(t, "offering")
		o.Protocol = protocol.Stateful
		return o
	},
	"http": func(t *testing.T) *mcpsource.Options {
		return &mcpsource.Options{Name: "shelf", URL: listen(t, httpServer(offeringServer(), &sdk.StreamableHTTPOptions{Stateless: true}))}
	},
	"http sessions": func(t *testing.T) *mcpsource.Options {
		return &mcpsource.Options{Name: "shelf", Protocol: protocol.Stateful, URL: listen(t, httpServer(offeringServer(), nil))}
	},
	"sse": func(t *testing.T) *mcpsource.Options {
		server := offeringServer()
		return &mcpsource.Options{Name: "shelf", SSE: true,
			URL: listen(t, sdk.NewSSEHandler(func(*http.Request) *sdk.Server { return server }, nil))}
	},
}

// TestOffers: resources and prompts are functions, over every transport.
func TestOffers(t *testing.T) {
	t.Parallel()
	for name, options := range offering {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openReady(t, options(t))
			blocks := &steps.Blocks{}
			ctx := steps.WithCallbacks(t.Context(), &steps.Callbacks{Blocks: blocks})
			call := func(name, args string) string {
				result, err := function(t, s, "shelf."+name).Call(ctx, []byte(args))
				if f, ok := fault.As(err); ok {
					return string(f.Code)
				}
				return strings.ReplaceAll(string(blocks.Digests(result)), steps.Digest([]byte("\x89PNG")), "sha256:DIGEST")
			}
			for _, test := range [][3]string{
				{"resources.read", `{"uri":"a://text"}`, `"hi"`},
				{"resources.read", `{"uri":"a://json"}`, `{"n": 12345678901234567890}`},
				{"resources.read", `{"uri":"a://blob"}`,
					`{"type":"resource","uri":"a://blob","mimeType":"image/png","size":4,"data":"sha256:DIGEST"}`},
				{"resources.read", `{"uri":"a://folder"}`,
					`["one",["two"],{"type":"resource","uri":"a://folder","mimeType":"image/png","size":4,"data":"sha256:DIGEST"}]`},
				{"resources.read", `{"uri":"a://nothing"}`, `null`},
				{"make", `{}`, `{"type":"resource_link","uri":"a://made","name":"made"}`},
				{"resources.read", `{"uri":"a://made"}`, `"made"`},
				{"prompts.get", `{"name":"review","arguments":{"of":"me"}}`, `{"description":"a review","messages":[` +
					`{"role":"user","content":{"type":"text","text":"[\"me\"]"}},` +
					`{"role":"assistant","content":{"type":"image","mimeType":"image/png","size":4,"data":"sha256:DIGEST"}}]}`},
				{"prompts.get", `{"name":"review"}`, "bad_arguments"},
			} {
				got := call(test[0], test[1])
				if test[0] == "make" { // servers may order members as they like
					got = fmt.Sprintf(`{"type":"%s","uri":"%s","name":"%s"}`, gjson.Get(got, "type"), gjson.Get(got, "uri"), gjson.Get(got, "name"))
				}
				if got != test[2] {
					t.Errorf("%s %s: got %s, want %s", test[0], test[1], got, test[2])
				}
			}
			if got := call("resources.read", `{"uri":"a://gone"}`); got != "function_failed" && got != "bad_arguments" {
				t.Errorf("a resource that is not there: got %s", got)
			}
			for _, name := range []string{"resources.read", "prompts.get"} {
				if spec := function(t, s, "shelf."+name).Spec; spec.Effect != steps.Read || !spec.EffectDeclared || !spec.ChainOnly || !spec.Patient {
					t.Errorf("the function is %+v", spec)
				}
			}
		})
	}
}

// TestOfferedProgress: a resource reports its progress as a tool does.
func TestOfferedProgress(t *testing.T) {
	t.Parallel()
	s := openReady(t, offering["stdio"](t))
	progress := make(chan float64, 8)
	ctx := steps.WithCallbacks(t.Context(), &steps.Callbacks{Progress: func(_ context.Context, done, _ float64, _ string) { progress <- done }})
	if _, err := function(t, s, "shelf.resources.read").Call(ctx, []byte(`{"uri":"a://text"}`)); err != nil {
		t.Fatal(err)
	}
	select {
	case done := <-progress:
		if done != 1 {
			t.Errorf("the progress is %v, want 1", done)
		}
	case <-time.After(patience):
		t.Error("no progress was reported")
	}
}

// TestOffersInASession: a client's own session has the functions, and reads in it.
func TestOffersInASession(t *testing.T) {
	t.Parallel()
	for name, options := range offering {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openReady(t, options(t))
			session, err := s.OpenSession(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = session.Close() })
			functions, err := session.Functions(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			got, err := find(t, functions, "shelf.resources.read").Call(session.CallContext(t.Context(), nil), []byte(`{"uri":"a://text"}`))
			if string(got) != `"hi"` || err != nil {
				t.Errorf("got %s, %v", got, err)
			}
		})
	}
}

// TestOffersBesideTools: which functions a server has beside its tools, by its capabilities.
func TestOffersBesideTools(t *testing.T) {
	t.Parallel()
	const both = `"resources":{},"prompts":{}`
	closed := `{"name":"a","annotations":{"openWorldHint":false}}`
	for _, test := range []struct{ name, capabilities, tools, want, warning string }{
		{"neither", `"tools":{}`, toolList("a"), "net.a", ""},
		{"both", `"tools":{},` + both, toolList("a"), "net.a net.resources.read net.prompts.get", ""},
		{"prompts", `"tools":{},"prompts":{}`, toolList("a"), "net.a net.prompts.get", ""},
		{"no tools", both, "", "net.resources.read net.prompts.get", ""},
		{"nothing on this machine is open", `"tools":{},"resources":{}`, closed, "net.a(local) net.resources.read(local)", ""},
		{"a tool that may reach elsewhere", `"tools":{},"resources":{}`, closed + "," + toolList("b"), "net.a(local) net.b net.resources.read", ""},
		{"a tool of that name", `"tools":{},` + both, toolList("resources/read"), "net.resources.read net.prompts.get",
			"takes the name of the function for resources/read"},
		{"a tool of that name, spelled otherwise", `"tools":{},` + both, toolList("promptsGet"), "net.promptsGet net.resources.read",
			"takes the name of the function for prompts/get"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			warnings := make(chan string, 8)
			server := &rawServer{capabilities: "{" + test.capabilities + "}"}
			s := openRaw(t, server, mcpsource.Options{Warn: func(f *fault.Error) { warnings <- f.Message }}, test.tools)
			var names []string
			for _, fn := range s.Functions() {
				if fn.Local {
					fn.Name += "(local)"
				}
				names = append(names, fn.Name)
			}
			if got := strings.Join(names, " "); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
			close(warnings)
			var all []string
			for warning := range warnings {
				all = append(all, warning)
			}
			if (test.warning == "") != (len(all) == 0) || !slices.ContainsFunc(append(all, ""), func(w string) bool { return strings.Contains(w, test.warning) }) {
				t.Errorf("the warnings are %q, want %q", all, test.warning)
			}
		})
	}
}

// TestUnusableOffers: what is no resource or prompt fails the call, and says what came.
func TestUnusableOffers(t *testing.T) {
	t.Parallel()
	server := &rawServer{capabilities: `{"tools":{},"resources":{},"prompts":{}}`}
	server.call = func(w http.ResponseWriter, _ *http.Request, id string) { answerJSON(w, id, `{"content":[]}`) }
	s := openRaw(t, server, mcpsource.Options{}, toolList("a"))
	for fn, args := range map[string]string{"net.resources.read": `{"uri":"a:b"}`, "net.prompts.get": `{"name":"p"}`} {
		if f := mustFail(t.Context(), t, s, fn, args, fault.FunctionFailed); !strings.Contains(f.Message, "The server is at fault") || f.Outcome != "" {
			t.Errorf("%s: %s, outcome %q", fn, f.Message, f.Outcome)
		}
	}
}
