package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/config"
	"github.com/onecall-mcp/onecall/internal/textfile"
)

// lookEvery is how often the files of a configuration are looked at.
const lookEvery = time.Second

// reloader loads the configuration again when it has changed and when it is told to. It serves it whole or not at all. Its methods
// but stop and close are called by one goroutine.
type reloader struct {
	*server
	app     *App              // that is served
	began   map[string]string // the settings that the server was started with
	unwarn  func()            // ends the looking for settings that fit nothing
	refused *fileState        // the files of the last configuration, if it could not be served
	seen    fileState         // what was loaded last, or refused
	last    fileState         // what was seen at the last look

	cancel   func()
	running  sync.WaitGroup
	retiring sync.WaitGroup // apps that are not served any more
	done     chan struct{}  // closed when nothing is served any more
}

// reloading loads the configuration again when there is a reason to, from now on and until stop.
func (s *server) reloading(ctx context.Context, a *App) *reloader {
	ctx, cancel := context.WithCancel(ctx)
	r := &reloader{server: s, app: a, began: a.config.Settings, unwarn: s.warnOfUnused(ctx, a), seen: a.files, last: a.files, cancel: cancel, done: make(chan struct{})}
	r.running.Go(func() {
		select {
		case <-s.open: // by what the server was started with; what is loaded takes its place
			r.run(ctx)
		case <-ctx.Done():
		}
	})
	r.notify("READY=1")
	r.running.Go(func() {
		<-ctx.Done()
		r.notify("STOPPING=1") // while the calls that run are given time to end
	})
	return r
}

// stop ends the loading.
func (r *reloader) stop() {
	r.cancel()
	r.running.Wait()
	r.unwarn()
}

// close closes all apps, whose calls have ended, after stop.
func (r *reloader) close() error {
	close(r.done)
	r.retiring.Wait()
	return r.app.close()
}

// run waits for reasons to load the configuration. Those that come while it is loaded are one.
func (r *reloader) run(ctx context.Context) {
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.o.Reload:
			if r.o.Orphaned() {
				continue
			}
			r.notify("RELOADING=1")
			r.server.server.Load().LookAgain() // even if the configuration is what it was, or refused
			for _, service := range r.app.services {
				service.Refresh()
			}
			r.reload(ctx, true)
			r.notify("READY=1")
		case <-look.C:
			if r.changed() {
				r.reload(ctx, false)
			}
		}
	}
}

// changed reports whether files have changed since they were loaded, and not since the last look: whoever writes them is given
// time to end.
func (r *reloader) changed() bool {
	now := r.seen.look()
	quiet := now.untouched(r.last)
	r.last = now
	return quiet && !now.untouched(r.seen)
}

// say notes something for a person, if the log is not for programs.
func (r *reloader) say(format string, args ...any) {
	if !r.o.JSON {
		r.process.Reporter.Note("%s", textfile.Printable(r.process.Redactor.Text(fmt.Sprintf(format, args...))))
	}
}

// reload loads the configuration, and serves it if nothing is wrong with it.
func (r *reloader) reload(ctx context.Context, asked bool) {
	began := time.Now()
	if path := r.app.config.Path; path != "" {
		if err := loadable(path); err != nil {
			var files fileState
			files.add("", path)
			r.refuse(err, path, files)
			return
		}
		if !asked && r.known(path) { // who asks may have mended what no file here says: a folder, a key, a server
			return
		}
	}
	next, err := r.app.process.open(r.app)
	if err == nil {
		err = next.checkLadder()
	}
	var drained <-chan struct{}
	if err == nil {
		drained, err = r.server.server.Load().Reload(r.options(next), r.access(next))
	}
	if err != nil {
		r.refuse(errors.Join(err, next.close()), next.config.Path, next.files)
		return
	}
	r.swap(ctx, next, drained, began)
}

// known reports whether the files are those that are served or were refused. It logs that if it is news.
func (r *reloader) known(path string) bool {
	if r.refused != nil && r.refused.equal(r.refused.again()) {
		r.seen = r.seen.look()
		return true
	}
	now := r.app.files.again()
	if !now.equal(r.app.files) {
		return false
	}
	r.seen = now
	if r.refused != nil {
		r.refused = nil
		r.telemetry.Reloaded(nil)
		r.log.Info("the served configuration stands", "file", path)
		r.say("%s is again what is served", path)
	}
	return true
}

// swap takes note that next is served from now on, and closes the app before when its calls have ended.
func (r *reloader) swap(ctx context.Context, next *App, drained <-chan struct{}, began time.Time) {
	before := r.app
	_ = next.store.SetMaxBytes(next.storeBytes) // which is in range
	r.current.Store(next)
	r.telemetry.Reloaded(nil)
	r.app, r.refused, r.seen = next, nil, next.files
	r.retiring.Go(func() {
		select {
		case <-drained:
		case <-r.done:
		}
		if err := before.close(); err != nil {
			r.log.Warn("a former configuration was not closed cleanly", "error", r.process.Redactor.Text(fault.Message(err)))
		}
	})
	r.warnOfIdle(next)
	r.unwarn()
	r.unwarn = r.warnOfUnused(ctx, next)
	r.report(compare(r.began, before, next), time.Since(began))
	r.warnOfLost(before)
}

// refuse reports what is wrong with a configuration, once. files are what it was read from.
func (r *reloader) refuse(err error, path string, files fileState) {
	r.telemetry.Reloaded(err)
	r.refused, r.seen = &files, files
	log := r.log
	var wrong *config.Error
	if !errors.As(err, &wrong) {
		why := r.process.Redactor.Text(fault.Message(err))
		log.Error("configuration refused", "file", path, "error", why)
		r.say("%s is refused, and what was served before goes on: %s", path, why)
		return
	}
	if r.o.JSON {
		log.Error("configuration refused", "file", wrong.File, "faults", faultLines(wrong.Faults))
		return
	}
	log.Error("configuration refused", "file", wrong.File, "faults", len(wrong.Faults))
	r.process.Reporter.Note("%s is refused, and what was served before goes on:", wrong.File)
	r.process.Reporter.Faults(wrong.File, wrong.Text, wrong.Faults)
}

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

// LogRefused logs each fault of a configuration by itself, for programs that read the log.
func LogRefused(log *slog.Logger, refused *config.Error) {
	for _, f := range refused.Faults {
		attributes := []any{"file", refused.File, "code", string(f.Code), "at", f.At}
		if f.Line > 0 {
			attributes = append(attributes, "line", f.Line, "column", f.Column)
		}
		if len(f.Nearest) > 0 {
			attributes = append(attributes, "nearest", f.Nearest)
		}
		log.Error(f.Message, attributes...)
	}
}
