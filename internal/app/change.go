package app

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/config"
	"github.com/onecall-mcp/onecall/steps"
)

// change is the difference between two apps, one of which replaces the other.
type change struct {
	config.Difference
	opened, closed, retained []string // names of sources
	needRestart              []string // JSON Pointers of the settings that take effect only after a restart
}

// restartSettings returns the JSON Pointers of the settings that are read only when the server starts.
func (a *App) restartSettings() []string {
	if a.process.overHTTP {
		return nil
	}
	if a.process.Surface != "" { // the flag overrides the configuration's surface
		return []string{"/access/stdio"}
	}
	return []string{"/access/stdio", "/surface"}
}

// settingsAndFiles returns, by JSON Pointer, the settings along with the digests of the files that they name.
func (a *App) settingsAndFiles() map[string]string {
	all := map[string]string{}
	maps.Copy(all, a.config.Settings)
	for _, file := range a.files {
		if file.pointer != "" {
			all[file.pointer] += " " + file.digest
		}
	}
	return all
}

// compare returns the difference between before and next. startSettings are the settings that the server was started with.
func compare(startSettings map[string]string, before, next *App) *change {
	c := &change{Difference: config.Compare(before.settingsAndFiles(), next.settingsAndFiles())}
	for name, source := range before.sources {
		if next.sources[name] != source {
			c.closed = append(c.closed, name)
		}
	}
	for name, source := range next.sources {
		if before.sources[name] == source {
			c.retained = append(c.retained, name)
		} else {
			c.opened = append(c.opened, name)
		}
	}
	slices.Sort(c.opened)
	slices.Sort(c.closed)
	slices.Sort(c.retained)
	for _, at := range next.restartSettings() {
		if startSettings[at] != next.config.Settings[at] {
			c.needRestart = append(c.needRestart, at)
		}
	}
	return c
}

// maxShownPointers is how many JSON Pointers of a difference are shown.
const maxShownPointers = 20

// clipped returns the first maxShownPointers pointers. If that leaves some out, one more element says how many: "and 5 more".
func clipped(pointers []string) []string {
	if len(pointers) <= maxShownPointers {
		return pointers
	}
	return append(slices.Clone(pointers[:maxShownPointers]), fmt.Sprintf("and %d more", len(pointers)-maxShownPointers))
}

// report logs a change and shows it to the operator. It never shows values, which may be secrets.
func (r *reloader) report(c *change, took time.Duration) {
	path := r.app.config.Path
	r.log.Info("configuration reloaded", "file", path,
		"added", clipped(c.Added), "removed", clipped(c.Removed), "changed", clipped(c.Changed),
		"sources_opened", c.opened, "sources_closed", c.closed, "sources_kept", c.retained,
		"needs_restart", c.needRestart, "ms", took.Milliseconds())
	r.noticef("%s", c.summary(path))
	for _, at := range c.needRestart {
		r.app.process.Reporter.Warn(r.app.config.FaultAt(at,
			fault.New(fault.BadRequest, "this change takes effect when the server is restarted")))
	}
}

// summary describes a change to a person.
func (c *change) summary(path string) string {
	var phrases []string
	for _, list := range []struct {
		verb  string
		names []string // JSON Pointers or names of sources
	}{{"added", c.Added}, {"removed", c.Removed}, {"changed", c.Changed}, {"opened", c.opened}, {"closed", c.closed}} {
		if len(list.names) > 0 {
			phrases = append(phrases, list.verb+" "+strings.Join(clipped(list.names), ", "))
		}
	}
	if len(c.Added)+len(c.Removed)+len(c.Changed) == 0 {
		phrases = slices.Insert(phrases, 0, "nothing changed in it")
	}
	return cmp.Or(path, "the default configuration") + " is loaded: " + strings.Join(phrases, "; ")
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
