// Package console shows runs in a browser, and lets people approve, resume and undo them. It has no data of its own: it reads the journal
// and the registry, and acts through the engine, with the rights of the person who looks. Every page works without script, which only
// keeps pages up to date.
package console

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/admit"
	"github.com/onecall-mcp/onecall/internal/secret"
	"github.com/onecall-mcp/onecall/steps"
)

// Path is where the console is served, on any host.
const Path = "/console/"

// Backend is one configuration, which a console shows.
type Backend struct {
	Journal  *journal.Journal // nil: runs are not recorded
	Scrubber *secret.Scrubber
	Values   bool    // arguments and results of runs may be shown
	Flags    string  // what commands that the console shows need to find this configuration, such as " --config FILE"; "": nothing
	Scope    *string // only runs that began in this scope (journal.Start) are shown; nil: those of all
	Serves   bool    // it is that of a server, whose sources stay open: there is a page of them
	// Open returns what calls functions. Those who only look at runs need no function, so sources may start at its first use.
	Open func(ctx context.Context) (*Calls, error)
	// Release is called when the request that got the backend has been answered; nil: nothing waits for it.
	Release func()
	// Replaced is closed when another configuration is served in place of this one; nil: none ever is.
	Replaced <-chan struct{}

	// Opened reports whether Open returns at once; nil: it does.
	Opened func() bool
}

// Calls is what calls functions.
type Calls struct {
	Catalog *steps.Catalog
	Run     func(ctx context.Context, request []byte, caller *chain.Caller) *chain.Answer

	BrokenChains func() []*fault.Error // why saved chains cannot be used; nil: all can
	// Restart returns what closes the connection to a source and opens it again, and returns how many calls that ends; nil: the source has
	// none. It may be nil, too.
	Restart func(source string) func() int
	// Login returns how a viewer logs in to a source; nil: nobody does. OwnLogins are the names of the functions that callers log in to one by
	// one, and that belong to a source for all. Both may be nil.
	Login     func(source string, viewer *Viewer) *SourceLogin
	OwnLogins []string
}

// Viewer is a person who looks.
type Viewer struct {
	steps.Caller
	Name   string // who decides, in the journal; "": ID says it
	Shared bool   // callers without tokens share this identity; steps.Caller.Rights does not bound what stored results they may fetch
	All    bool   // sees the runs of all callers
	Acts   bool   // may approve, deny, resume, undo and run
}

// Options configure a console. Backend, Identify and Begin are required.
type Options struct {
	Backend func() *Backend // the configuration of the moment
	// Identify returns who has a credential, which is checked with each request. It fails with denied, or unavailable.
	Identify func(ctx context.Context, credential string) (*Viewer, error)
	// Begin returns a context for what goes on after its request was answered, and what to call at its end: a shutdown waits for that. It
	// refuses once the shutdown has begun.
	Begin func(ctx context.Context) (_ context.Context, end func(), refused *fault.Error)
	// Link is a credential that the first request with ?link= is given for a one-time key; see OneTimeLink. nil: people log in with a token.
	Link *OneTimeLink
	Log  *slog.Logger // nil: no logging
}

type console struct {
	*Options
	pages map[string]pageTemplate
	busy  busy
	forms admit.Bytes // those above smallForm
	acts  acts
	seen  viewCache

	logins sourceLogins

	streams streams
}

// viewCache has the views of a catalog by rights. Each keeps what it computes for the functions of the moment.
type viewCache struct {
	mu      sync.Mutex
	catalog *steps.Catalog
	list    map[steps.Rights]*steps.View
}

// maxViews bounds the views that are kept, since tokens may bring any rights.
const maxViews = 50

func (v *viewCache) of(catalog *steps.Catalog, rights steps.Rights) *steps.View {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.catalog != catalog || len(v.list) >= maxViews && v.list[rights] == nil {
		v.catalog, v.list = catalog, map[steps.Rights]*steps.View{}
	}
	if v.list[rights] == nil {
		v.list[rights] = rights.View(catalog)
	}
	return v.list[rights]
}

// New returns the handler of Path. Hosts, and origins of requests, have been checked before it is called.
func New(o *Options) http.Handler {
	c := &console{Options: o, pages: parsePages()}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+Path+"assets/{name}", serveAsset)
	mux.HandleFunc("GET "+Path+"events", c.events)
	mux.HandleFunc("GET "+Path+"login", c.showLogin)
	mux.HandleFunc("POST "+Path+"login", c.login)
	mux.HandleFunc("POST "+Path+"logout", c.logout)
	mux.HandleFunc("GET "+Path+callbackPath+"{name}", c.comeBack)
	for pattern, handle := range c.routes() {
		mux.HandleFunc(pattern, c.handler(handle))
	}
	return withHeaders(http.NewCrossOriginProtection().Handler(mux))
}

// routes returns the pages and actions by their patterns. What acts is a POST, and its handler begins with request.mustAct; each caller may
// log in for its own calls.
func (c *console) routes() map[string]func(*request) (*page, error) {
	return map[string]func(*request) (*page, error){
		"GET " + Path:               showNothing,
		"GET " + Path + "{$}":       showRuns,
		"GET " + Path + "runs/{id}": showRun,
		"GET " + Path + "savings":   showSavings,

		"GET " + Path + "functions":        showFunctions,
		"GET " + Path + "functions/{name}": showFunction,
		"GET " + Path + "sources":          showSources,
		"POST " + Path + "sources/{name}":  restartSource,

		"POST " + Path + "sources/{name}/login":  beginLogin,
		"POST " + Path + "sources/{name}/logout": endLogin,

		"GET " + Path + "chains":         showChains,
		"GET " + Path + "chains/{name}":  showChain,
		"POST " + Path + "chains/{name}": runSaved,
		"GET " + Path + "playground":     showPlayground,
		"POST " + Path + "playground":    tryChain,

		"GET " + Path + "approvals":              showApprovals,
		"GET " + Path + "runs/{id}/steps/{step}": showStep,
		"GET " + Path + "runs/{id}/calls/{n}":    showCall,
		"GET " + Path + "runs/{id}/approve":      showWaiting,
		"POST " + Path + "runs/{id}/approve":     decide,
		"GET " + Path + "runs/{id}/fix":          showFix,
		"POST " + Path + "runs/{id}/fix":         fix,
		"GET " + Path + "runs/{id}/undo":         showUndo,
		"POST " + Path + "runs/{id}/undo":        undo,
		"GET " + Path + "runs/{id}/compare":      showCompare,
		"POST " + Path + "runs/{id}/resume":      resume,
		"GET " + Path + "acts/{act}":             showAct,
	}
}

// request is a request of a known viewer.
type request struct {
	*http.Request
	*Backend
	viewer     *Viewer
	credential string
	log        *slog.Logger
	console    *console
}

// page is what a handler shows, or where it sends the browser.
type page struct {
	template string // the name of its file in view, without .html
	title    string
	data     any
	redirect string // the path below Path to go to in its place; "": none
	next     string // the address that follows at once; "": none
	status   int    // the HTTP status; 0: that of the fault in data, else 200
	live     string // what keeps the element #live of the page up to date: a run's id, liveAll or liveSources; "": nothing does
}

// What a page shows that keeps itself up to date, other than one run.
const (
	liveAll     = "all" // many runs
	liveSources = "sources"
)

// handler identifies the viewer, checks that an action comes from a page of the console, and shows the page or the fault.
func (c *console) handler(handle func(*request) (*page, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if c.Link.exchange(w, r) {
			return
		}
		req, done := c.admit(w, r)
		if req == nil {
			return
		}
		defer done()
		p, err := (*page)(nil), error(nil)
		if r.Method == http.MethodPost {
			var release func()
			release, err = req.readForm()
			defer release()
		}
		if err == nil {
			p = req.sentBefore()
		}
		if err == nil && p == nil {
			p, err = handle(req)
		}
		switch {
		case err != nil:
			p = faultPage(err)
			if r.Method == http.MethodGet {
				p.title = "Not shown"
			}
			c.show(w, req, p)
		case p.redirect != "":
			http.Redirect(w, r, Path+p.redirect, http.StatusSeeOther)
		default:
			c.show(w, req, p)
		}
	}
}

// tooBusy refuses a request of a viewer who has too many.
func tooBusy() error {
	return fault.New(fault.Busy, "%d of your requests are being answered: wait until some are", maxRequests)
}

// admit identifies the viewer. done must be called when the request has been answered. If the viewer is not admitted, admit has answered,
// and the request is nil.
func (c *console) admit(w http.ResponseWriter, r *http.Request) (_ *request, done func()) {
	req := &request{Request: r, Backend: c.Backend(), log: c.Log, console: c}
	release := req.Release
	if release == nil {
		release = func() {}
	}
	if !c.identify(w, req) {
		release()
		return nil, nil
	}
	free, ok := c.busy.acquire(req.viewer.ID)
	if !ok {
		c.show(w, req, faultPage(tooBusy()))
		release()
		return nil, nil
	}
	return req, func() {
		free()
		release()
	}
}

// faultPage shows an error.
func faultPage(err error) *page {
	f, coded := fault.As(err)
	switch {
	case coded:
	case errors.Is(err, journal.ErrNotFound):
		f = fault.New(fault.TokenExpired, "there is no such run here: it has expired, it is another caller's, or the journal is another one")
	case errors.Is(err, context.DeadlineExceeded):
		f = fault.New(fault.Timeout, "the page took more than %v: try again when the machine or the journal is less busy", timeout)
	case journal.IsBusy(err):
		f = fault.New(fault.Busy, "the run is not over: try again when it has ended")
	default:
		f = fault.New(fault.Unavailable, "%s", fault.Message(err))
	}
	return &page{template: "fault", title: "Not done", data: f}
}

// showNothing answers for an address that is that of no page.
func showNothing(*request) (*page, error) {
	p := faultPage(fault.New(fault.BadRequest, "there is no such page"))
	p.title, p.status = "Not shown", http.StatusNotFound
	return p, nil
}

// functions returns the functions that the viewer may use. It starts the sources if they have not started.
func (r *request) functions() (*steps.View, error) {
	calls, err := r.Open(r.Context())
	if err != nil {
		return nil, err
	}
	return r.view(calls), nil
}

// view returns the functions that the viewer may use.
func (r *request) view(calls *Calls) *steps.View {
	view := r.console.seen.of(calls.Catalog, r.viewer.Rights)
	if r.viewer.readsCauses() {
		return view
	}
	return view.WithoutCauses()
}

// readsCauses reports whether a viewer may learn why a source is down, as this machine's user and administrators do over MCP.
func (v *Viewer) readsCauses() bool { return v.Shared || v.Tier >= steps.TierAdmin }

// logCause logs why a source is down, which the viewer does not read.
func (r *request) logCause(ctx context.Context, source string, cause *fault.Error) {
	r.log.WarnContext(ctx, "a call of a source failed", "source", source, "code", string(cause.Code), "error", r.Scrubber.Text(cause.Message))
}

// run carries out a request of package chain for the viewer.
func (r *request) run(ctx context.Context, request []byte, override chain.Override) (*chain.Answer, error) {
	return r.runNamed(ctx, "", request, override)
}

// runNamed is run, with the name under which runs are listed if the request has none.
func (r *request) runNamed(ctx context.Context, name string, request []byte, override chain.Override) (*chain.Answer, error) {
	calls, err := r.Open(ctx)
	if err != nil {
		return nil, err
	}
	caller := chain.NewCaller(&r.viewer.Caller, r.viewer.Shared)
	caller.Chain, caller.Functions, caller.Override = name, r.view(calls), override
	caller.Rights.Credentials = calls.Catalog.Credentials(caller.Rights.Credentials)
	caller.Override.Operator = r.viewer.All
	if !r.viewer.readsCauses() {
		ctx = steps.WithoutCauses(ctx, r.logCause)
	}
	return calls.Run(ctx, request, caller), nil
}

// seesFunction returns a function that reports whether the viewer may know the name of a function of a run: it may use the function, if
// only with a credential that its client brings and no browser, or sees the runs of all callers.
func (r *request) seesFunction() (func(name string) bool, error) {
	if r.viewer.All {
		return func(string) bool { return true }, nil
	}
	view, err := r.functions()
	if err != nil {
		return nil, err
	}
	return view.MayUse(), nil
}

// timeout bounds the work of a page. Calls of functions have limits of their own.
const timeout = 30 * time.Second
