package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/secret"
	"github.com/onecall-mcp/onecall/mcp"
	"github.com/onecall-mcp/onecall/mcp/internal/mcptest"
	"github.com/onecall-mcp/onecall/mcp/proxy"
	"github.com/onecall-mcp/onecall/mcp/transport"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/groups"
	mcpsource "github.com/onecall-mcp/onecall/steps/source/mcp"
)

// transcriptServer is the server of transcripts: with a source of files, and with an MCP server of notes if the options ask for it.
type transcriptServer struct {
	test     *testing.T
	server   *mcp.Server
	access   *transport.Access
	user     *steps.Caller // the caller over stdio
	once     sync.Once
	url      string
	token    string // the last continuation token that was given
	run      string // the last run that was named
	state    string // the state of the last question
	approval string // the last approve that was given
	cursor   string // the cursor of the next page of the last list
	key      string // the key of the last question of a task
	runs     *journal.Journal

	refusal atomic.Pointer[string] // why the transport refused a request, until it is shown
}

// serveTranscript serves what the section `options` of a transcript describes.
func serveTranscript(t *testing.T, options []byte) *transcriptServer {
	t.Helper()
	settings := gjson.ParseBytes(options)
	s := &transcriptServer{test: t, user: &steps.Caller{ID: "user", Rights: steps.Rights{Tier: steps.TierReadWrite}}}
	surface, err := mcp.ParseSurface(settings.Get("surface").String())
	if err != nil {
		t.Fatal(err)
	}
	catalog, err := steps.NewCatalog(&steps.CatalogOptions{Settings: labelsIn(t, settings.Get("functions"))})
	if err != nil {
		t.Fatal(err)
	}
	var gate chan struct{}
	if settings.Get("journal").Bool() {
		gate = make(chan struct{}, 1)
	}
	if err := catalog.Add("store", fileSource{gate}); err != nil {
		t.Fatal(err)
	}
	if saved := savedIn(t, settings.Get("saved")); len(saved) > 0 {
		if err := catalog.Add("chain", saved); err != nil {
			t.Fatal(err)
		}
	}
	counter, results := storeOf(t)
	dispatch, faults := groups.New(&groups.Config{Groups: []groups.Group{{Name: "files", Resources: []string{"file"}}}})
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	o := &mcp.Options{
		Catalog: catalog, Counter: counter, Dispatch: dispatch, Surface: surface, Version: "1.2.3",
		MaxTotalTokens: int(settings.Get("maxTotalTokens").Int()), SessionTokens: int(settings.Get("sessionTokens").Int()),
		Lite: settings.Get("lite").Bool(), ReadTool: settings.Get("readTool").Bool(), Processed: settings.Get("processed").Bool(),
		Options: transport.Options{Stateless: settings.Get("stateless").Bool(), MaxRequestBytes: settings.Get("maxRequestBytes").Int(),
			MaxSessions: int(settings.Get("maxSessions").Int()), Refused: func(why string) { s.refusal.Store(&why) }},
		Unready: func(context.Context) string { return settings.Get("unready").Str },
	}
	if hidden := settings.Get("hidden"); hidden.Exists() {
		o.Hidden = hidden.String
	}
	if settings.Get("console").Bool() {
		o.Console = http.HandlerFunc(s.decide)
	}
	if settings.Get("upstream").Bool() {
		passMessages(t, o)
	}
	if listed := settings.Get("listed"); listed.Exists() {
		if err := catalog.Add("s", &listedTool{listed.Raw}); err != nil {
			t.Fatal(err)
		}
	}
	if settings.Get("behind").Exists() {
		s.putBehind(t, settings, o)
	}
	if settings.Get("journal").Bool() {
		if s.runs, err = journal.New(&journal.Memory{}, nil); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.runs.Close() })
	}
	flows := rulesIn(settings.Get("flows"))
	if len(flows) > 0 {
		o.Labels = rememberLabels(s.runs, flows, func(context.Context, string, []byte) ([]steps.Label, error) { return nil, nil })
	}
	if o.Engine, err = chain.New(&chain.Options{
		Flows: flows, Functions: catalog, Counter: counter, Results: results, MaxTotalTokens: o.MaxTotalTokens, Lite: o.Lite, Journal: s.runs,
		Approve: settings.Get("approve").Str, ApproveByPerson: settings.Get("approve").Exists() && settings.Get("approveBy").Str != "caller",
	}); err != nil {
		t.Fatal(err)
	}
	s.access = &transport.Access{Anyone: steps.Caller{ID: "http", Rights: steps.Rights{Tier: steps.TierReadWrite}}}
	if settings.Get("tokens").Bool() {
		s.access = &transport.Access{Callers: transcriptCallers, URL: settings.Get("url").Str, Issuers: []string{"https://id.example.com"},
			Scopes: []string{"read", "write"}, Hosts: []string{"onecall.internal:8080"}}
	}
	if missing := settings.Get("missing"); missing.Exists() {
		s.access.Ready = func(context.Context) error { return fault.New(fault.Unavailable, "%s", missing.Str) }
	}
	if s.server, err = mcp.New(o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.server.Close()
		catalog.Close()
		results.Close()
	})
	return s
}

// decide is a console that approves or denies (/console/RUN/deny) all calls that a run waits for.
func (s *transcriptServer) decide(w http.ResponseWriter, r *http.Request) {
	run, verb, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, transport.ConsolePath), "/")
	decide(s.test, s.runs, run, verb == "deny")
	fmt.Fprint(w, verb)
}

// decide approves or denies all calls that a run waits for.
func decide(t *testing.T, j *journal.Journal, run string, deny bool) {
	t.Helper()
	calls, err := chain.Waiting(t.Context(), j, run)
	if err != nil {
		t.Error(err)
		return
	}
	ruling, places := &chain.Ruling{By: "the boss", Reason: "so"}, []string(nil)
	for i := range calls {
		places = append(places, calls[i].Get("at").Str)
	}
	if ruling.Approve = places; deny {
		ruling.Approve, ruling.Deny = nil, places
	}
	if _, err := chain.Decide(t.Context(), j, run, ruling); err != nil {
		t.Error(err)
	}
}

// transcriptCallers are the callers of transcripts, by their tokens.
var transcriptCallers = mcptest.Callers{
	"ann":   {ID: "token:ann", Rights: steps.Rights{Tier: steps.TierReadWrite}},
	"bob":   {ID: "token:bob", Rights: steps.Rights{Tier: steps.TierRead, Functions: "store.file.list"}},
	"root":  {ID: "token:root", Rights: steps.Rights{Tier: steps.TierAdmin}},
	"every": {ID: "token:every", Rights: steps.Rights{Tier: steps.TierAdmin, Functions: "*"}},
	"part":  {ID: "token:part", Rights: steps.Rights{Tier: steps.TierAdmin, Functions: "store.file.*"}},
	"rita":  {ID: "token:rita", Rights: steps.Rights{Tier: steps.TierRead}},
}

// putBehind adds upstreams to a flat surface. If there are secrets, the first upstream has a prompt and a resource with the first secret
// in their names.
func (s *transcriptServer) putBehind(t *testing.T, settings gjson.Result, o *mcp.Options) {
	t.Helper()
	var upstreams []*upstreamServer
	for _, name := range settings.Get("behind").Array() {
		upstreams = append(upstreams, newUpstream(t, name.Str, settings.Get("statelessBehind").Bool()))
	}
	if word := settings.Get("secret").Str; word != "" {
		first := upstreams[0]
		first.server.AddPrompt(&sdk.Prompt{Name: "of-" + word + "-x"}, func(context.Context, *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
			return &sdk.GetPromptResult{Description: "got", Messages: []*sdk.PromptMessage{}}, nil
		})
		first.server.AddResource(&sdk.Resource{Name: "x", URI: "x://" + word}, first.read)
		o.Scrubber = secret.New([]string{word})
	}
	withUpstreams(t, upstreams...)(o)
	unwrapProxy(o)
}

// savedChains is a source of saved chains.
type savedChains []steps.Function

func (s savedChains) Functions() []steps.Function { return s }
func (savedChains) Close() error                  { return nil }

// savedIn returns the saved chains in an object, whose keys are their names.
func savedIn(t *testing.T, object gjson.Result) (list savedChains) {
	t.Helper()
	object.ForEach(func(name, text gjson.Result) bool {
		fn, faults := chain.Saved(name.String(), []byte(text.Raw), &chain.Options{})
		if len(faults) > 0 {
			t.Fatalf("%s: %v", name, faults)
		}
		list = append(list, *fn)
		return true
	})
	return list
}

// fileSource is a source that reads, writes and fails. Its function wait waits for a call of open.
type fileSource struct{ gate chan struct{} } // nil: it has neither wait nor open

func (fileSource) Close() error { return nil }

func (s fileSource) Functions() []steps.Function {
	function := func(name, description, input string, effect steps.Effect, call func(args gjson.Result) (string, error)) steps.Function {
		return steps.Function{
			Spec: steps.Spec{Name: "store." + name, Description: description, Input: json.RawMessage(input), Effect: effect, EffectDeclared: true},
			Call: func(_ context.Context, args []byte) ([]byte, error) {
				text, err := call(gjson.ParseBytes(args))
				return []byte(text), err
			},
		}
	}
	list := []steps.Function{
		function("file.list", "Lists files.", `{"type":"object","properties":{"count":{"type":"integer"}}}`, steps.Read,
			func(args gjson.Result) (string, error) {
				var files []string
				for i := range args.Get("count").Int() {
					files = append(files, fmt.Sprintf(`{"name":"file %d","size":%d}`, i, 100*i))
				}
				return `{"files":[` + strings.Join(files, ",") + `]}`, nil
			}),
		function("file.read", "Reads a file.", `{"type":"object","required":["name"],"properties":{"name":{"type":"string"}}}`, steps.Read,
			func(args gjson.Result) (string, error) {
				return `{"text":"the text of ` + args.Get("name").Str + `","id":12345678901234567890}`, nil
			}),
		function("file.write", "Writes a file.", `{"type":"object","required":["name","text"],"properties":{"name":{"type":"string"},"text":{"type":"string"}}}`, steps.Write,
			func(gjson.Result) (string, error) { return `{"written":true}`, nil }),
		function("fail", "Fails.", `{"type":"object"}`, steps.Read, func(gjson.Result) (string, error) {
			return "", fault.New(fault.FunctionFailed, "the disk is full")
		}),
	}
	if s.gate == nil {
		return list
	}
	return append(list, []steps.Function{
		{
			Spec: steps.Spec{Name: "store.wait", Description: "Waits.", Input: json.RawMessage(`{"type":"object"}`), Effect: steps.Read, EffectDeclared: true},
			Call: func(ctx context.Context, _ []byte) ([]byte, error) {
				select {
				case <-ctx.Done():
					return nil, ctx.Err()
				case <-s.gate:
					return []byte(`"waited"`), nil
				}
			},
		},
		function("open", "Ends a wait.", `{"type":"object"}`, steps.Read, func(gjson.Result) (string, error) {
			s.gate <- struct{}{}
			return "true", nil
		}),
	}...)
}

// passMessages adds an MCP server whose tools, resources and prompts a flat surface passes through.
func passMessages(t *testing.T, o *mcp.Options) {
	t.Helper()
	server := sdk.NewServer(&sdk.Implementation{Name: "notes", Version: "1"}, &sdk.ServerOptions{
		CompletionHandler: func(context.Context, *sdk.CompleteRequest) (*sdk.CompleteResult, error) {
			return &sdk.CompleteResult{Completion: sdk.CompletionResultDetails{Values: []string{"yellow"}}}, nil
		},
	})
	type noteResult struct {
		Count int `json:"count"`
	}
	sdk.AddTool(server, &sdk.Tool{Name: "note", Description: "Notes.", Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true}},
		func(context.Context, *sdk.CallToolRequest, struct{ Text string }) (*sdk.CallToolResult, noteResult, error) {
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "noted"}}}, noteResult{1}, nil
		})
	sdk.AddTool(server, &sdk.Tool{Name: "lose", Description: "Loses a note."}, func(context.Context, *sdk.CallToolRequest,
		struct{}) (*sdk.CallToolResult, any, error) {
		return nil, nil, errors.New("the note is lost")
	})
	server.AddResource(&sdk.Resource{Name: "first", URI: "note://first"},
		func(_ context.Context, r *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
			return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: r.Params.URI, Text: "buy milk"}}}, nil
		})
	server.AddPrompt(&sdk.Prompt{Name: "remind"}, func(context.Context, *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
		return &sdk.GetPromptResult{Messages: []*sdk.PromptMessage{{Role: "user", Content: &sdk.TextContent{Text: "remind me"}}}}, nil
	})
	front := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, nil))
	t.Cleanup(func() {
		front.CloseClientConnections()
		go front.Close()
	})
	source, err := mcpsource.New(&mcpsource.Options{Name: "notes", URL: front.URL})
	if err != nil {
		t.Fatal(err)
	}
	if err := o.Catalog.Add("notes", source); err != nil {
		t.Fatal(err)
	}
	steps.Await(t.Context(), o.Catalog, nil)
	o.Passthrough = proxy.New([]proxy.Upstream{source})
}
