package app

import (
	"cmp"
	"net/url"
	"time"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/config"
	"github.com/onecall-mcp/onecall/steps"
)

// needRestart returns the JSON Pointers of the settings that are read only when the server starts, and are not what they were then.
func (a *App) needRestart(started *config.Config) (pointers []string) {
	if a.process.overHTTP {
		return nil
	}
	if a.config.Access.MaxTier(false) != started.Access.MaxTier(false) {
		pointers = append(pointers, "/access/stdio")
	}
	if a.keptSurface {
		pointers = append(pointers, "/surface")
	}
	return pointers
}

// report tells the log and the operator that a configuration is served, and which of its settings are not yet in effect.
func (r *reloader) report(took time.Duration) {
	path, pointers := r.app.config.Path, r.app.needRestart(r.started)
	r.log.Info("configuration reloaded", "file", path, "needs_restart", pointers, "ms", took.Milliseconds())
	r.noticef("%s is loaded", cmp.Or(path, "the default configuration"))
	for _, at := range pointers {
		r.app.process.Reporter.Warn(r.app.config.FaultAt(at,
			fault.New(fault.BadRequest, "this change takes effect when the server is restarted")))
	}
}

// warnOfLosses warns if clients no longer need tokens, or if results that the replaced app (before) stored can no longer be found.
func (r *reloader) warnOfLosses(before *App) {
	log := r.log
	if before.callers != nil && r.app.callers == nil {
		log.Warn("clients over HTTP no longer need a token", "tier", config.TierOf(r.app.config.Access.HTTP, steps.TierRead).String())
	}
	if r.app.storeIdentity() != before.storeIdentity() {
		log.Warn("earlier results can no longer be fetched: results.store has changed", "at", "/results")
	}
}

// storeIdentity returns what identifies the result store: "disk", "memory" or a URL, without user and password, because other credentials
// find the same results.
func (a *App) storeIdentity() string {
	store := config.Or(a.config.Results.Store, a.defaultStore())
	if store == "postgres" {
		store = config.Or(a.config.Journal.Store, "")
	}
	server, err := url.Parse(store)
	if err != nil {
		return store
	}
	server.User = nil
	return server.String()
}
