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

// change is what is different when one app takes the place of another.
type change struct {
	config.Difference
	opened, closed, kept []string // sources
	later                []string // what is not carried out before a restart, by JSON Pointer
}

// untilRestart are the places of a configuration whose changes are carried out when the server starts.
func (a *App) untilRestart() []string {
	if a.process.anySurface {
		return nil
	}
	if a.process.Surface != "" { // which the configuration does not say
		return []string{"/access/stdio"}
	}
	return []string{"/access/stdio", "/surface"}
}

// settingsAndFiles are what the configuration says, and what is in the files that it names, by JSON Pointer.
func (a *App) settingsAndFiles() map[string]string {
	all := map[string]string{}
	maps.Copy(all, a.config.Settings)
	for _, file := range a.files {
		if file.at != "" {
			all[file.at] += " " + file.digest
		}
	}
	return all
}

// compare returns what changes when next replaces before. began is what the server was started with.
func compare(began map[string]string, before, next *App) *change {
	c := &change{Difference: config.Compare(before.settingsAndFiles(), next.settingsAndFiles())}
	for name, source := range before.sources {
		if next.sources[name] != source {
			c.closed = append(c.closed, name)
		}
	}
	for name, source := range next.sources {
		if before.sources[name] == source {
			c.kept = append(c.kept, name)
		} else {
			c.opened = append(c.opened, name)
		}
	}
	slices.Sort(c.opened)
	slices.Sort(c.closed)
	slices.Sort(c.kept)
	for _, at := range next.untilRestart() {
		if began[at] != next.config.Settings[at] {
			c.later = append(c.later, at)
		}
	}
	return c
}

// shownPlaces bounds how many places of a difference are shown.
const shownPlaces = 20

// few are the first of places, and how many there are beside them.
func few(places []string) []string {
	if len(places) <= shownPlaces {
		return places
	}
	return append(slices.Clone(places[:shownPlaces]), fmt.Sprintf("and %d more", len(places)-shownPlaces))
}

// report logs a change, and notes it for a person. Values are never shown: they may be secrets.
func (r *reloader) report(c *change, took time.Duration) {
	path := r.app.config.Path
	r.log.Info("configuration reloaded", "file", path,
		"added", few(c.Added), "removed", few(c.Removed), "changed", few(c.Changed),
		"sources_opened", c.opened, "sources_closed", c.closed, "sources_kept", c.kept,
		"needs_restart", c.later, "ms", took.Milliseconds())
	r.say("%s", c.words(path))
	for _, at := range c.later {
		r.app.process.Reporter.Warn(r.app.config.Under(at, fault.New(fault.BadRequest, "this change is carried out when the server is started again")))
	}
}

// words tell a person of a change.
func (c *change) words(path string) string {
	var parts []string
	for _, part := range []struct {
		verb   string
		places []string
	}{{"added", c.Added}, {"removed", c.Removed}, {"changed", c.Changed}, {"opened", c.opened}, {"closed", c.closed}} {
		if len(part.places) > 0 {
			parts = append(parts, part.verb+" "+strings.Join(few(part.places), ", "))
		}
	}
	if len(c.Added)+len(c.Removed)+len(c.Changed) == 0 {
		parts = slices.Insert(parts, 0, "nothing changed in it")
	}
	return cmp.Or(path, "the default configuration") + " is loaded: " + strings.Join(parts, "; ")
}

// warnOfLost warns of what the app before had, and the app that is served has not.
func (r *reloader) warnOfLost(before *App) {
	log := r.log
	if before.callers != nil && r.app.callers == nil {
		log.Warn("clients over HTTP need no token any more", "tier", config.TierOf(r.app.config.Access.HTTP, steps.TierRead).String())
	}
	if storePlace(&r.app.config.Results) != storePlace(&before.config.Results) {
		log.Warn("results that were kept before are not found any more: what keeps them is not the same", "at", "/results")
	}
}

// storePlace distinguishes stores: another user or password of a server finds what was kept by the one before.
func storePlace(c *config.Results) string {
	where := config.Or(c.Store, "memory")
	server, err := url.Parse(where)
	if err != nil {
		return where
	}
	server.User = nil
	return server.String()
}
