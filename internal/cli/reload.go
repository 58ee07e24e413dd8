package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// How often the files of a configuration are looked at.
const (
	lookEvery   = time.Second
	closesAfter = 10 * time.Second // beyond the longest time that a call may take
)

// newcomers is how long what is served waits for sources that a new configuration brings: tests have one that waits longer.
var newcomers = 10 * time.Second

// reloader has the configuration loaded anew, when it has changed and when it is told to, and served whole or not at all. But
// for stop its methods are called by one goroutine.
type reloader struct {
	*instance
	app      *app    // that is served
	began    *config // what the server was started with
	unwarn   func()  // ends the looking for settings that fit nothing
	digests  digests
	refused  *refusal       // the last configuration, where it could not be served
	moving   sight          // what was seen last, where that is not served
	lacked   string         // what was told of a configuration that is not there
	lacks    string         // why there was none when it was looked for last
	retiring sync.WaitGroup // apps that are not served any more
	done     chan struct{}  // closed when nothing is served any more
}

// refusal is a configuration that could not be served.
type refusal struct {
	sight
	named  map[string][]string
	faults int
}

// reloading has the configuration loaded anew from now on, until the function that it returns is called. That one closes what is
// served then, unless it is a.
func (s *instance) reloading(ctx context.Context, a *app) (stop func()) {
	r := &reloader{instance: s, app: a, began: &a.config.config, unwarn: func() {}, done: make(chan struct{})}
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() {
		select {
		case <-s.serving: // by what the server was started with; what is loaded takes its place
			r.run(ctx)
		case <-ctx.Done():
		}
	})
	r.inform("READY=1")
	running.Go(func() {
		<-ctx.Done()
		r.inform("STOPPING=1") // while the calls that run are given time to end
	})
	return func() {
		cancel()
		running.Wait()
		r.unwarn()
		close(r.done)
		r.retiring.Wait()
		if r.app != a {
			_ = r.app.close() // there is nobody any more whom it would help to know
		}
	}
}

// run waits for reasons to load the configuration. Those that come while it is loaded are one.
func (r *reloader) run(ctx context.Context) {
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.hangups:
			if r.terminalGone() {
				interruptSelf()
				continue
			}
			r.inform("RELOADING=1")
			r.server.Load().LookAgain() // also where the configuration is what it was, or refused
			for _, service := range r.app.services {
				service.Refresh()
			}
			r.reload(ctx, true)
			r.inform("READY=1")
		case <-look.C:
			if r.changed() {
				r.reload(ctx, false)
			}
		}
	}
}

// path is that of the configuration; "": there is none.
func (r *reloader) path() string { return r.app.config.path }

// changed tells whether the files of the configuration are others than those that are served, and than those that were refused,
// and have not changed since they were looked at last: who writes one is given time to end.
func (r *reloader) changed() bool {
	path := r.path()
	if path == "" {
		return false
	}
	lacked := r.lacked != ""
	if r.lacking(path, false) {
		r.moving = nil
		return false
	}
	named := r.app.named
	if r.refused != nil {
		named = r.refused.named
	}
	now := r.digests.see(path, named)
	moving := r.moving
	r.moving = nil
	switch {
	case now.holds(r.app.seen):
		if r.refused != nil || lacked { // it is again as it is served
			r.refused = nil
			r.telemetry.Reloaded(nil)
			r.logs.logger().Info("the served configuration stands", "file", path)
			r.say("%s is again what is served", path)
		}
		return false
	case r.refused != nil && now.holds(r.refused.sight):
		return false
	case moving != nil && maps.Equal(now, moving):
		return true
	}
	r.moving = now
	return false
}

// lacking tells whether there is no configuration to be loaded, and tells of it: once, and when it has been so for a while, unless
// it was asked for.
func (r *reloader) lacking(path string, asked bool) bool {
	why := r.digests.lacking(path)
	before := r.lacks
	r.lacks = why
	switch {
	case why == "":
		r.lacked = ""
		return false
	case why == r.lacked && !asked, why != before && !asked:
		return true
	}
	r.lacked = why
	r.telemetry.Reloaded(errors.New(why))
	r.logs.logger().Error("configuration refused", "file", path, "error", why)
	r.say("%s: what was served before goes on", why)
	return true
}

// say tells a person, where the log is not for programs.
func (r *reloader) say(format string, args ...any) {
	if r.flags.logFormat != "json" {
		r.note("%s", printable(r.app.redactor.Text(fmt.Sprintf(format, args...))))
	}
}

// reload loads the configuration, and serves it where nothing is wrong with it.
func (r *reloader) reload(ctx context.Context, asked bool) {
	began := time.Now()
	path := r.path()
	if path != "" && r.lacking(path, asked) {
		return
	}
	seen := r.digests.see(path, r.app.named) // before it is read: no change is missed
	if asked && r.refused != nil && r.digests.see(path, r.refused.named).holds(r.refused.sight) {
		r.say("%s has not changed since it was refused for %s: what was served before goes on", path, plural(r.refused.faults, "fault"))
		return
	}
	next, err := r.openAfter(r.app, r.app.use)
	if err != nil {
		r.refuse(err, seen)
		return
	}
	change := r.compare(next)
	r.letIn(next) // rights change at once
	if len(change.opened) > 0 && !change.urgent() {
		r.await(ctx, next)
	}
	functions := functionNames(r.app)
	var drained <-chan struct{}
	if err = next.checkLadder(); err == nil {
		drained, err = r.server.Load().Reload(r.options(next), nil)
	}
	if err != nil {
		r.letIn(r.app)
		r.refuse(errors.Join(err, next.close()), seen)
		return
	}
	r.current.Store(next)
	r.telemetry.Reloaded(nil)
	before := r.app
	r.app, r.refused, r.moving = next, nil, nil
	change.count(functions, functionNames(next))
	r.retire(before, drained)
	r.warnOfIdle(next)
	r.unwarn()
	r.unwarn = r.warnOfUnused(ctx, next)
	r.tell(change, time.Since(began))
	r.warnOfLost(before, next)
}

// letIn has those come in, over HTTP, who may by an app.
func (r *reloader) letIn(a *app) {
	if a.use.anySurface {
		r.server.Load().SetAccess(r.access(a))
	}
}

// await waits a while for the sources that are not there yet: until then what was served before is better. It waits no more once
// the configuration is to be loaded again.
func (r *reloader) await(ctx context.Context, next *app) {
	ctx, cancel := context.WithTimeout(ctx, newcomers)
	there := make(chan struct{})
	defer func() {
		cancel()
		<-there
	}()
	go func() {
		defer close(there)
		steps.Await(ctx, next.catalog, nil)
	}()
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		select {
		case <-there:
			return
		case hangup := <-r.hangups:
			select {
			case r.hangups <- hangup: // it is run's
			default:
			}
			return
		case <-look.C:
			if !r.digests.see(next.config.path, next.named).holds(next.seen) {
				return
			}
		}
	}
}

// warnOfLost tells of what was there before a configuration was served, and is not any more.
func (r *reloader) warnOfLost(before, next *app) {
	log := r.logs.logger()
	if before.callers != nil && next.callers == nil {
		log.Warn("clients over HTTP need no token any more", "tier", tierOf(next.config.Access.HTTP, steps.TierRead).String())
	}
	if !next.config.Results.keeps(&before.config.Results) {
		log.Warn("results that were kept before are not found any more: what keeps them is not the same", "at", "/results")
	}
}

// retire closes an app when nothing uses it any more, or when the longest time of a call is over.
func (r *reloader) retire(a *app, drained <-chan struct{}) {
	longest := a.longest() + closesAfter
	r.retiring.Go(func() {
		timer := time.NewTimer(longest)
		defer timer.Stop()
		select {
		case <-drained:
		case <-timer.C:
			r.logs.logger().Warn("calls of a former configuration have not ended, and lose their sources", "after", longest)
		case <-r.done:
		}
		if err := a.close(); err != nil {
			r.logs.logger().Warn("a former configuration was not closed cleanly", "error", r.redact(err))
		}
	})
}

// longest is how long a call of the app may take.
func (a *app) longest() time.Duration {
	longest := a.maxDuration()
	for _, entry := range a.catalog.Registry().All() {
		longest = max(longest, entry.Spec().Timeout)
	}
	return longest
}

// refuse tells what is wrong with a configuration, and remembers it: it is told once. seen is what was there before it was read.
func (r *reloader) refuse(err error, seen sight) {
	r.telemetry.Reloaded(err)
	config, _ := loadConfig(r.configPath)
	named := config.named()
	for at, files := range r.app.named {
		named[at] = append(slices.Clip(named[at]), files...)
	}
	path := r.path()
	if path == "" {
		path = config.path
	}
	r.refused = &refusal{sight: r.digests.see(path, named), named: named, faults: 1}
	maps.Copy(r.refused.sight, seen)
	r.moving = nil
	log := r.logs.logger()
	var wrong *configError
	if !errors.As(err, &wrong) {
		log.Error("configuration refused", "file", path, "error", r.redact(err))
		r.say("%s is refused, and what was served before goes on: %s", path, message(err))
		return
	}
	r.refused.faults = len(wrong.faults)
	if r.flags.logFormat == "json" {
		log.Error("configuration refused", "file", wrong.file, "faults", faultLines(wrong.faults))
		return
	}
	log.Error("configuration refused", "file", wrong.file, "faults", len(wrong.faults))
	r.note("%s is refused, and what was served before goes on:", wrong.file)
	r.showFaults(&source{name: wrong.file, text: wrong.text}, wrong.faults)
}

func (r *reloader) redact(err error) string { return r.app.redactor.Text(message(err)) }

// faultLines are faults with their places, one line each.
func faultLines(faults []*fault.Error) []string {
	lines := make([]string, len(faults))
	for i, f := range faults {
		lines[i] = f.Error()
		if f.Line > 0 {
			lines[i] = fmt.Sprintf("line %d, column %d: %s", f.Line, f.Column, lines[i])
		}
	}
	return lines
}

// functionNames are the names of the functions that an app offers now.
func functionNames(a *app) map[string]bool {
	names := map[string]bool{}
	for _, entry := range a.catalog.Registry().All() {
		names[entry.Spec().Name] = true
	}
	return names
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
