package app

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/config"
	"github.com/onecall-mcp/onecall/internal/console"
	"github.com/onecall-mcp/onecall/internal/login"
	"github.com/onecall-mcp/onecall/steps"
)

// newConsole returns the console of serve --console, for those who have tokens; nil: it is not served.
func (s *server) newConsole() http.Handler {
	if s.o.ConsoleFlags == nil {
		return nil
	}
	return console.New(&console.Options{Backend: s.consoleBackend, Identify: s.identifyViewer, Begin: s.begin, Log: s.log})
}

func (s *server) begin(ctx context.Context) (_ context.Context, end func(), refused *fault.Error) {
	return s.server.Load().Begin(ctx)
}

// consoleBackend returns the app that is served, which stays open until the request that it is for has been answered.
func (s *server) consoleBackend() *console.Backend {
	a := s.current.Load()
	for !a.used.TryRLock() { // it is about to be closed, so another one has replaced it
		a = s.current.Load()
	}
	scope := a.Scope()
	return &console.Backend{Journal: a.Journal, Scope: &scope, Scrubber: a.scrubber, Values: a.ShowsValues(), Flags: *s.o.ConsoleFlags,
		Serves: true, Release: a.used.RUnlock, Replaced: a.replaced,
		Open: func(context.Context) (*console.Calls, error) {
			return &console.Calls{Catalog: a.Catalog, Run: a.runTyped, BrokenChains: a.BrokenChains, Restart: a.restart, Login: a.consoleLogin,
				OwnLogins: a.endpointLogins()}, nil
		}}
}

// restart returns what closes the connection to a server and opens it again (console.Calls); nil: the source is no server, or is disabled.
func (a *App) restart(source string) func() int {
	if server := a.servers[source]; server != nil {
		return server.Restart
	}
	return nil
}

// consoleLogin returns how a viewer logs in to a source (console.Calls): for its own calls, or for those of all callers. nil: nobody does.
func (a *App) consoleLogin(source string, viewer *console.Viewer) *console.SourceLogin {
	own := a.loginOf(source, viewer.ID)
	options := own
	if options == nil {
		options = a.gatewayLogins[source]
	}
	if options == nil {
		return nil
	}
	l := &console.SourceLogin{Own: own != nil}
	l.Begin = func(ctx context.Context, redirect string) (console.LoginFlow, error) {
		flow, err := login.Begin(ctx, options, redirect)
		if err != nil {
			return nil, a.clean(err)
		}
		return cleanFlow{flow, a}, nil
	}
	if own == nil {
		l.Changed = func() { a.restart(source)() }
		return l
	}
	l.Logout = func(ctx context.Context) error { return a.clean(login.Logout(ctx, options)) }
	l.Changed = func() { a.credentials.Reread(viewer.Credentials) }
	return l
}

// cleanFlow is a login whose errors have no secrets of the configuration.
type cleanFlow struct {
	*login.Flow
	app *App
}

// Finish implements console.LoginFlow.
func (f cleanFlow) Finish(ctx context.Context, query url.Values) error {
	return f.app.clean(f.Flow.Finish(ctx, query))
}

// clean removes the configuration's secrets from an error.
func (a *App) clean(err error) error { return (&Account{scrubber: a.scrubber}).scrubbed(err) }

// endpointLogins returns the names of the endpoints to which callers log in.
func (a *App) endpointLogins() (names []string) {
	for name := range a.callerLogins {
		if strings.HasPrefix(name, "http.") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// awaitConsole waits until nothing that people began in the console uses the app, for at most limit. What goes on then is interrupted, and
// can be resumed.
func (a *App) awaitConsole(limit time.Duration) {
	for end := time.Now().Add(limit); !a.used.TryLock() && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
}

// identifyViewer identifies a viewer by the token that MCP clients send, with the rights of the moment. Administrators see the runs of all.
func (s *server) identifyViewer(ctx context.Context, credential string) (*console.Viewer, error) {
	a := s.current.Load()
	callers := a.callers
	if callers == nil {
		return nil, fault.New(fault.Denied, "nobody has a token any more: the configuration has neither access.tokens nor access.jwt")
	}
	caller, err := callers.Verify(ctx, credential)
	if err != nil {
		return nil, err
	}
	viewer := &console.Viewer{Caller: *caller, All: seesAll(caller.Rights), Acts: caller.Decides}
	if a.credentials != nil {
		viewer.Credentials = a.credentials.Bring(caller, nil) // its logins: others are those of a request of MCP
	}
	return viewer, nil
}

// seesAll reports whether rights are those of an administrator of all functions.
func seesAll(r steps.Rights) bool {
	return r.Tier == steps.TierAdmin && (r.Functions == "" || r.Functions == "*")
}

// consoleURL returns where people find the console: at the host of access.url, else at the address that is listened on.
func (s *server) consoleURL(a *App, address string) string {
	if page := a.consolePage(); page != console.Path {
		return page
	}
	return "http://" + address + console.Path
}

// consolePage returns where the console is served: at the host of access.url, else its path alone; "": it is not.
func (a *App) consolePage() string {
	if !a.process.console {
		return ""
	}
	if public, err := url.Parse(config.Or(a.config.Access.URL, "")); err == nil && public.Host != "" {
		return public.Scheme + "://" + public.Host + console.Path
	}
	return console.Path
}

// consoleFault returns why the console cannot be served with this access configuration; nil: it can.
func consoleFault(c *config.Access) *fault.Error {
	if c.ByToken() {
		return nil
	}
	return fault.New(fault.BadRequest, "--console shows each caller its runs, and callers without tokens are all the same: write access.tokens "+
		"(onecall auth token makes one) or access.jwt, or use onecall console, for this machine's user")
}
