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

// toolset is what callers of the same rights see on one surface: the tools, of the functions that they may use. All their
// sessions share it.
type toolset struct {
	server  *Server
	rights  steps.Rights
	surface Surface

	begun   sync.Once    // it shows its tools
	used    int          // the number of the generation in which it was looked for last; guarded by Server.mu
	running atomic.Int64 // requests that it answers

	snapshotMu sync.Mutex
	snapshot   *viewSnapshot // of the generation that was asked for last

	stateful  *sdk.Server // for clients with sessions
	stateless *sdk.Server // for the others
	shared    *variant    // what clients without sessions see for themselves; nil: what all see

	refreshing sync.Mutex        // never taken by a call that only looks for its tool
	of         *steps.Registry   // that the tools were made of
	listed     map[string][]byte // what is listed of each tool, by name

	mu      sync.Mutex
	offered *Tools
	prompts map[string]prompt // by name
	present map[string]bool   // the tools that the protocol's servers have
}

// tool is a tool as clients see it, and what answers its calls.
type tool struct {
	*sdk.Tool
	listed     json.RawMessage // as clients read it
	answer     func(c *call) *sdk.CallToolResult
	dispatcher *groups.Dispatcher // nil: it is none
}

func (s *Server) newToolset(r steps.Rights, surface Surface) *toolset {
	f := &toolset{server: s, rights: r, surface: surface, listed: map[string][]byte{}, present: map[string]bool{}}
	f.stateful, f.stateless = f.newSDK(true), f.newSDK(false)
	f.shared = f.open(nil)
	return f
}

// newSDK makes the protocol's server for clients with or without sessions.
func (f *toolset) newSDK(sessions bool) *sdk.Server {
	o := f.server.o()
	options := &sdk.ServerOptions{
		Instructions: instructions,
		Logger:       transport.SDKLog(o.Log),
		PageSize:     pageSize,
		// What upstreams add is told to each client as it is then.
		Capabilities: &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{ListChanged: true}, Logging: &sdk.LoggingCapabilities{}},
		// What one caller may see is no other's business.
		SetCacheable: func(_ context.Context, _ sdk.Request, c *sdk.Cacheable) { c.CacheScope = "private" },
	}
	if sessions {
		options.KeepAlive, options.KeepAliveFailureThreshold = o.KeepAlive, 3
		if replica := o.Replica; replica != "" {
			options.GetSessionID = func() string { return replica + "-" + rand.Text() }
		}
	}
	server := sdk.NewServer(&sdk.Implementation{Name: o.Name, Version: o.Version}, options)
	server.AddReceivingMiddleware(f.server.transport.Receive(sessions), f.attend(sessions), f.passIn)
	server.AddSendingMiddleware(f.passOut)
	return server
}

// pageSize is how many tools one page of a list holds: a client that does not ask for the second page should miss
// nothing.
const pageSize = 100_000

// attend has what is listed wait for sources that are starting. Why a source is not there is for operators, who are the callers of
// the highest tier, and for the one user of a server whose callers have no tokens. Others read what they can do about it.
func (f *toolset) attend(sessions bool) sdk.Middleware {
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
				f.settle(ctx)
			case "tools/call":
				if f.lists() {
					f.settleFor(ctx, req)
				}
			case "logging/setLevel":
				if params, ok := req.GetParams().(*sdk.SetLoggingLevelParams); ok && r.Session != nil {
					sessionOf(r).setLevel(params.Level)
				}
			}
			if refused := transport.Revoked(ctx); refused != nil { // while it waited
				return nil, refused
			}
			result, err := next(ctx, method, req)
			if hello, ok := result.(*sdk.InitializeResult); ok && !sessions && err == nil {
				hello.Capabilities = withoutListChanges(hello.Capabilities)
			}
			return result, err
		}
	}
}

// withoutListChanges are the capabilities that are declared to a client of a version with sessions, of which this process has none: nothing
// reaches it outside of its requests. A client of a version without sessions is told of changes if it listens.
func withoutListChanges(c *sdk.ServerCapabilities) *sdk.ServerCapabilities {
	if c == nil {
		return nil
	}
	own := *c
	if c.Tools != nil {
		own.Tools = &sdk.ToolCapabilities{}
	}
	if c.Prompts != nil {
		own.Prompts = &sdk.PromptCapabilities{}
	}
	if c.Resources != nil {
		own.Resources = &sdk.ResourceCapabilities{}
	}
	return &own
}

// listWait is how long a list of tools waits for sources that are starting; clients are told of what comes later. Many
// give a server ten seconds in all to greet them and to list its tools.
const listWait = 5 * time.Second

// settle waits for sources that are starting if that changes the list of tools, and brings the list up to date.
func (f *toolset) settle(ctx context.Context) {
	if f.lists() {
		ctx, cancel := context.WithTimeout(ctx, listWait)
		defer cancel()
		steps.Await(ctx, f.view(), nil)
		f.refresh()
	}
}

// lists reports whether the tools depend on the functions: on every surface but chain, and where there are saved chains.
func (f *toolset) lists() bool {
	return f.surface != SurfaceChain ||
		slices.ContainsFunc(f.server.o().Catalog.Sources(), func(s steps.SourceInfo) bool { return s.Name == steps.ChainSource })
}

// settleFor does so for the call of a tool that is not listed yet.
func (f *toolset) settleFor(ctx context.Context, req sdk.Request) {
	params, ok := req.GetParams().(*sdk.CallToolParamsRaw)
	if !ok || f.shows(params.Name) {
		return
	}
	steps.Await(ctx, f.view(), func(*steps.Registry) bool {
		f.refresh()
		return f.shows(params.Name)
	})
	f.refresh()
}

func (f *toolset) shows(name string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.present[name]
}

// have takes note of whether the protocol's servers have a tool.
func (f *toolset) have(name string, present bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.present[name] = present
}

// refresh brings the tools up to date with the functions. Clients with sessions are told if the list has changed.
func (f *toolset) refresh() {
	f.refreshing.Lock()
	defer f.refreshing.Unlock()
	view := f.view()
	if f.of == view.Registry() {
		return
	}
	offered := f.offer(view)
	f.of = offered.of
	gone := make(map[string]bool, len(f.listed))
	for name := range f.listed {
		gone[name] = true
	}
	f.mu.Lock()
	f.offered = offered
	f.mu.Unlock()
	f.refreshPrompts(offered.of)
	for _, t := range offered.tools {
		delete(gone, t.Name)
		if bytes.Equal(t.listed, f.listed[t.Name]) {
			continue
		}
		if err := f.add(t.Tool); err != nil {
			f.server.o().Log.Error("a tool cannot be shown", "tool", t.Name, "error", err)
			continue
		}
		f.listed[t.Name] = t.listed
		f.have(t.Name, true)
	}
	names := make([]string, 0, len(gone))
	for name := range gone {
		names = append(names, name)
		delete(f.listed, name)
		f.have(name, false)
	}
	if len(names) > 0 {
		f.stateful.RemoveTools(names...)
		f.stateless.RemoveTools(names...)
	}
}

// add shows one tool. The protocol's library panics on schemas that it does not take.
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
