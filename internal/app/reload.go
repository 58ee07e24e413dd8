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
	"github.com/onecall-mcp/onecall/mcp/transport"
)

// pollInterval is how often the configuration's files are checked for changes.
const pollInterval = time.Second

// reloader loads the configuration again when it has changed and on request. A configuration is served completely or not at all. All
// methods except stop and close are called by one goroutine.
type reloader struct {
	*server
	app          *App           // the app that is served
	started      *config.Config // what the server was started with
	stopChecks   func()         // ends the background checks of app
	refusedFiles *fileState     // the files as the last configuration was read from them, if it was refused; else nil
	loadedFiles  fileState      // the files as the last configuration, served or refused, was read from them
	polledFiles  fileState      // the files at the last poll

	cancel   func()
	running  sync.WaitGroup
	retiring sync.WaitGroup // waits for apps that are being replaced
	done     chan struct{}  // closed when calls are no longer served
}

// startReloader starts the reloader of a, the app that is served, and the background checks of a. They run until stop.
func (s *server) startReloader(ctx context.Context, a *App) *reloader {
	ctx, cancel := context.WithCancel(ctx)
	r := &reloader{server: s, app: a, started: &a.config.Config, stopChecks: s.startChecks(ctx, a), loadedFiles: a.files,
		polledFiles: a.files, cancel: cancel, done: make(chan struct{})}
	r.running.Go(func() {
		select {
		case <-s.accepting: // clients are let in with the first configuration; later ones replace it
			r.run(ctx)
		case <-ctx.Done():
		}
	})
	r.notify("READY=1")
	r.running.Go(func() {
		<-ctx.Done()
		r.notify("STOPPING=1") // running calls still get time to end
	})
	return r
}

// stop ends reloading and the background checks.
func (r *reloader) stop() {
	r.cancel()
	r.running.Wait()
	r.stopChecks()
}

// close closes all apps after stop. Their calls must have ended.
func (r *reloader) close() error {
	close(r.done)
	r.retiring.Wait()
	r.app.awaitConsole(transport.DefaultGrace)
	return r.app.close()
}

// run waits for reasons to reload. Reasons that arrive during a reload count as one.
func (r *reloader) run(ctx context.Context) {
	poll := time.NewTicker(pollInterval)
	defer poll.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.o.Reload:
			if r.o.Orphaned() { // the signal means that the terminal is gone, and ends the server
				continue
			}
			r.notify("RELOADING=1")
			r.server.server.Load().RecheckCallers() // even if the configuration is unchanged or refused
			for _, service := range r.app.services {
				service.Refresh()
			}
			r.reload(ctx, true)
			r.notify("READY=1")
		case <-poll.C:
			if r.changed() {
				r.reload(ctx, false)
			}
		}
	}
}

// changed reports whether files changed since they were loaded, but not since the last poll: writers get time to finish.
func (r *reloader) changed() bool {
	now := r.loadedFiles.restat()
	quiet := now.sameStat(r.polledFiles)
	r.polledFiles = now
	return quiet && !now.sameStat(r.loadedFiles)
}

// noticef shows a message to the operator unless the log is for programs.
func (r *reloader) noticef(format string, args ...any) {
	if !r.o.JSON {
		r.process.Reporter.Notice("%s", textfile.Printable(r.process.Redactor.Text(fmt.Sprintf(format, args...))))
	}
}

// reload loads the configuration and serves it if it is valid. requested is set for an explicit request.
func (r *reloader) reload(ctx context.Context, requested bool) {
	began := time.Now()
	if path := r.app.config.Path; path != "" {
		if err := checkLoadable(path); err != nil {
			var files fileState
			files.add("", path)
			r.refuse(err, path, files)
			return
		}
		if !requested && r.handled(path) { // a request also retries what no file shows, such as a server that failed for good
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

// handled reports whether the configuration in the files is the one that is served, or the one that was refused last. If the files have
// returned from a refused configuration to the served one, it logs that.
func (r *reloader) handled(path string) bool {
	if r.refusedFiles != nil && r.refusedFiles.sameContent(r.refusedFiles.reread()) {
		r.loadedFiles = r.loadedFiles.restat()
		return true
	}
	now := r.app.files.reread()
	if !now.sameContent(r.app.files) {
		return false
	}
	r.loadedFiles = now
	if r.refusedFiles != nil {
		r.refusedFiles = nil
		r.telemetry.Reloaded(nil)
		r.log.Info("the file again holds the served configuration", "file", path)
		r.noticef("%s again holds the served configuration", path)
	}
	return true
}

// swap makes next the served app and closes the former one when its calls have ended.
func (r *reloader) swap(ctx context.Context, next *App, drained <-chan struct{}, began time.Time) {
	before := r.app
	_ = next.store.SetMaxBytes(next.storeBytes) // the limit is valid: the configuration accepts only positive ones
	r.use(next)
	close(before.replaced) // open pages of the console ask again
	r.telemetry.Reloaded(nil)
	r.app, r.refusedFiles, r.loadedFiles = next, nil, next.files
	r.retiring.Go(func() {
		select {
		case <-drained:
		case <-r.done:
		}
		before.used.Lock()
		if err := before.close(); err != nil {
			r.log.Warn("a former configuration was not closed cleanly", "error", r.process.Redactor.Text(fault.Message(err)))
		}
	})
	r.stopChecks()
	r.stopChecks = r.startChecks(ctx, next)
	r.report(time.Since(began))
	r.warnOfLosses(before)
}

// refuse reports once what is wrong with a configuration that was read from files.
func (r *reloader) refuse(err error, path string, files fileState) {
	r.telemetry.Reloaded(err)
	r.refusedFiles, r.loadedFiles = &files, files
	log := r.log
	var wrong *config.Error
	if !errors.As(err, &wrong) {
		why := r.process.Redactor.Text(fault.Message(err))
		log.Error("configuration refused", "file", path, "error", why)
		r.noticef("%s is refused, and the former configuration stays in use: %s", path, why)
		return
	}
	if r.o.JSON {
		log.Error("configuration refused", "file", wrong.File, "faults", faultLines(wrong.Faults))
		return
	}
	log.Error("configuration refused", "file", wrong.File, "faults", len(wrong.Faults))
	r.process.Reporter.Notice("%s is refused, and the former configuration stays in use:", wrong.File)
	r.process.Reporter.Faults(wrong)
}

// faultLines returns each fault with its position on one line.
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

// LogRefused logs each fault of a configuration as a record of its own, for programs that read the log.
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
