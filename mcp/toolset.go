package mcp

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/mcp/transport"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/groups"
)

// toolset is what callers of the same rights see on one surface. All their sessions share it.
type toolset struct {
	server  *Server
	rights  steps.Rights
	surface Surface

	fillOnce sync.Once    // fills the toolset
	lastUsed int          // number of the generation that used it last; guarded by Server.mu
	usedAt   time.Time    // if it is one of credentials; guarded by Server.mu
	running  atomic.Int64 // running requests

	snapshotMu sync.Mutex
	snapshot   *viewSnapshot // the snapshot of the generation that was asked for last

	stateful                        *sdk.Server       // serves clients with sessions
	stateless                       *sdk.Server       // serves clients without sessions
	answerStateful, answerStateless sdk.MethodHandler // handle direct calls
	serverInfo                      []byte            // see Options.serverInfoMeta

	searchIndex searchIndex // of callers with credentials of their own

	sharedMu sync.Mutex
	shared   map[askable]*clientView // the views of clients without sessions, by what servers may ask of them; nil values: see openView

	refreshing sync.Mutex        // held while the tools are updated, but not by calls that only look up their tool
	registry   *steps.Registry   // the registry that the tools were made from
	listed     map[string][]byte // the listed forms of each tool, by name

	mu         sync.Mutex
	offered    *Tools
	prompts    map[string]prompt // the prompts by name
	registered map[string]bool   // tools that the SDK's servers have
}

// tool is a tool with its handler.
type tool struct {
	*sdk.Tool
	listed     json.RawMessage // the tool as clients read it
	forApps    json.RawMessage // the same for clients that show apps; nil: no different
	answer     func(c *call) *sdk.CallToolResult
	dispatcher *groups.Dispatcher // nil: the tool is not a dispatcher
}

func (s *Server) newToolset(r steps.Rights, surface Surface) *toolset {
	f := &toolset{server: s, rights: r, surface: surface, listed: map[string][]byte{}, registered: map[string]bool{},
		shared: map[askable]*clientView{}}
	f.stateful, f.stateless = f.newSDK(true), f.newSDK(false)
	f.answerStateful, f.answerStateless, f.serverInfo = f.directHandler(true), f.directHandler(false), s.opts().serverInfoMeta()
	return f
}

// newSDK returns the SDK's server for clients with or without sessions.
func (f *toolset) newSDK(sessions bool) *sdk.Server {
	o := f.server.opts()
	options := &sdk.ServerOptions{
		Instructions: instructions,
		Logger:       transport.SDKLog(o.Log),
		PageSize:     pageSize,
		// Clients learn of upstreams' further capabilities when they connect.
		Capabilities: &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{ListChanged: true}, Logging: &sdk.LoggingCapabilities{}},
		// Callers may see different things.
		SetCacheable: func(_ context.Context, _ sdk.Request, c *sdk.Cacheable) { c.CacheScope = "private" },
	}
	if o.Engine.Journal() != nil { // without a journal no run continues in the background
		options.Capabilities.AddExtension(tasksExtension, nil)
	}
	if sessions {
		options.KeepAlive, options.KeepAliveFailureThreshold = o.KeepAlive, 3
		if replica := o.Replica; replica != "" {
			options.GetSessionID = func() string { return replica + "-" + rand.Text() }
		}
	}
	server := sdk.NewServer(&sdk.Implementation{Name: o.Name, Version: o.Version}, options)
	server.AddReceivingMiddleware(f.server.transport.Receive(sessions), f.prepare(sessions), f.receiveListen,
		f.receiveTasks, f.receiveRaw)
	f.addTaskMethods(server)
	server.AddSendingMiddleware(f.sendRaw, f.sendTasks)
	return server
}

// pageSize is the page size of tools/list, so large that clients which do not read further pages miss nothing.
const pageSize = 100_000

// prepare is the middleware that makes lists, and calls of tools that are not listed yet, wait for sources. It hides why a source is down
// from callers other than administrators and the single user of a server without tokens.
func (f *toolset) prepare(sessions bool) sdk.Middleware {
	return func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
			f.running.Add(1)
			defer f.running.Add(-1)
			r := transport.RequestIn(ctx)
			if r.Token && f.rights.Tier < steps.TierAdmin {
				ctx = steps.WithoutCauses(ctx, f.server.logCause)
			}
			switch method {
			case "tools/list", "prompts/list":
				f.awaitList(ctx, method, req)
			case "tools/call":
				if f.dependsOnFunctions() {
					waiting, end := r.UntilEnd(ctx) // a call whose session is cancelled meanwhile is still answered
					f.awaitTool(waiting, req)
					end()
				}
			case "logging/setLevel":
				if err := setLevel(r, req); err != nil {
					return nil, err
				}
			}
			if refused := transport.Revoked(ctx); refused != nil { // revoked while it waited
				return nil, refused
			}
			result, err := next(ctx, method, req)
			if hello, ok := result.(*sdk.InitializeResult); ok && !sessions && err == nil {
				hello.Capabilities = withoutListChanges(hello.Capabilities)
			}
			if (method == "initialize" || method == "server/discover") && err == nil && showsApps(req) {
				withResources(result)
			}
			return result, err
		}
	}
}

// withoutListChanges removes list changes from the capabilities for a client that has no session although its protocol version has
// sessions: nothing reaches it outside of its requests. A client of a version without sessions can listen for changes.
func withoutListChanges(c *sdk.ServerCapabilities) *sdk.ServerCapabilities {
	if c == nil {
		return nil
	}
	copied := *c
	if c.Tools != nil {
		copied.Tools = &sdk.ToolCapabilities{}
	}
	if c.Prompts != nil {
		copied.Prompts = &sdk.PromptCapabilities{}
	}
	if c.Resources != nil {
		copied.Resources = &sdk.ResourceCapabilities{}
	}
	return &copied
}

// dependsOnFunctions reports whether the tools depend on the functions: on every surface but chain, and with saved chains.
func (f *toolset) dependsOnFunctions() bool {
	return f.surface != SurfaceChain ||
		slices.ContainsFunc(f.server.opts().Catalog.Sources(), func(s steps.SourceInfo) bool { return s.Name == steps.ChainSource })
}

// awaitTool waits for the tool of a call that is not listed yet.
func (f *toolset) awaitTool(ctx context.Context, req sdk.Request) {
	params, ok := req.GetParams().(*sdk.CallToolParamsRaw)
	offers := func() bool { return f.offerOf(nil).byName[params.Name] != nil }
	if !ok || offers() {
		return
	}
	steps.Await(ctx, f.view(), func(*steps.Registry) bool {
		f.refresh()
		return offers()
	})
	f.refresh()
}

// shows reports whether the SDK's servers have a tool.
func (f *toolset) shows(name string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.registered[name]
}

// setRegistered records whether the SDK's servers have a tool.
func (f *toolset) setRegistered(name string, present bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.registered[name] = present
}

// refresh updates the tools from the functions. The SDK notifies clients with sessions if the list has changed.
func (f *toolset) refresh() {
	f.refreshing.Lock()
	defer f.refreshing.Unlock()
	view := f.view()
	if f.registry == view.Registry() {
		return
	}
	offered := f.offer(view)
	f.registry = offered.registry
	removed := make(map[string]bool, len(f.listed))
	for name := range f.listed {
		removed[name] = true
	}
	f.mu.Lock()
	f.offered = offered
	f.mu.Unlock()
	f.refreshPrompts(offered.registry)
	for _, t := range offered.tools {
		delete(removed, t.Name)
		forms := append(slices.Clip(t.listed), t.forApps...)
		if bytes.Equal(forms, f.listed[t.Name]) {
			continue
		}
		if err := f.add(t.Tool); err != nil {
			f.server.opts().Log.Error("a tool cannot be shown", "tool", t.Name, "error", err)
			continue
		}
		f.listed[t.Name] = forms
		f.setRegistered(t.Name, true)
	}
	names := make([]string, 0, len(removed))
	for name := range removed {
		names = append(names, name)
		delete(f.listed, name)
		f.setRegistered(name, false)
	}
	if len(names) > 0 {
		f.stateful.RemoveTools(names...)
		f.stateless.RemoveTools(names...)
	}
}

// add registers one tool. The SDK panics on schemas that it does not accept.
func (f *toolset) add(t *sdk.Tool) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("%v", v)
		}
	}()
	f.stateful.AddTool(t, f.handler(t.Name))
	f.stateless.AddTool(t, f.handler(t.Name))
	return nil
}
