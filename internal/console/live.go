package console

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/onecall-mcp/onecall/chain/journal"
)

const (
	beatEvery   = 15 * time.Second       // the longest time between two events of a stream; build/console.mjs counts on it
	changeEvery = 250 * time.Millisecond // the shortest time between two changes that a stream tells
	changeShare = 75 * time.Millisecond  // what each open stream adds to it, so that many pages do not slow down the runs that they show
)

// stream is the stream of events of a page. It says only that something on the page has changed, and the page asks for itself again. So it
// does not even tell when something happened that the viewer may not see. While it lasts, the page knows that the viewer is still let in.
type stream struct {
	*request
	about string // what the page shows if it is no run: onStill or onSources; "": runs
	run   string // the run that the page shows; "": it lists the newest runs
	shown string // what the page showed when the stream last looked

	sources <-chan struct{} // closed when sources have changed since the stream last looked; nil: it does not look at them
}

// Parts of a stream's address that say what its page shows.
const (
	onStill   = "still" // nothing that changes by itself
	onSources = "sources"
)

// streams are the streams that are open. The zero value is ready to use.
type streams struct {
	mu     sync.Mutex
	open   map[*stream]func()
	active int // how many of them follow changes
}

// add keeps a stream, which end ends, until remove is called.
func (l *streams) add(s *stream, end func()) (remove func()) {
	count := 1
	if s.about == onStill {
		count = 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open == nil {
		l.open = map[*stream]func(){}
	}
	l.open[s] = end
	l.active += count
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.open, s)
		l.active -= count
	}
}

// end ends the streams of a credential.
func (l *streams) end(credential string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for s, end := range l.open {
		if s.credential == credential {
			end()
		}
	}
}

// pace returns the time between two changes that a stream tells while there are as many streams as now.
func (l *streams) pace() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return max(changeEvery, time.Duration(l.active)*changeShare)
}

// events answers with a stream, until the viewer's rights or the configuration change. The page then asks for another one, which begins
// with a change or is refused.
func (c *console) events(w http.ResponseWriter, r *http.Request) {
	req, done := c.admit(w, r)
	if req == nil {
		return
	}
	defer done()
	query := r.URL.Query()
	s := &stream{request: req, run: query.Get("run")}
	for _, about := range []string{onStill, onSources} {
		if query.Has(about) {
			s.about = about
		}
	}
	ctx, end := context.WithCancel(r.Context())
	defer end()
	if err := s.begin(ctx); err != nil {
		c.show(w, req, faultPage(err))
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // nginx holds events back
	defer c.streams.add(s, end)()
	s.send(w, "changed") // since the page was shown
	s.follow(ctx, w, func() bool {
		now, err := c.Identify(ctx, req.credential)
		return err == nil && *now == *req.viewer
	})
}

// begin checks that the viewer may see what the stream is about.
func (s *stream) begin(ctx context.Context) error {
	switch s.about {
	case onStill:
		return nil
	case onSources:
		if err := s.mustServe(); err != nil {
			return err
		}
		return s.lookAtSources()
	}
	if err := s.mustHaveJournal(); err != nil {
		return err
	}
	rows, err := s.look(ctx)
	if err == nil && s.run != "" && (len(rows) == 0 || rows[0].ID != s.run) {
		return journal.ErrNotFound
	}
	return err
}

// follow sends what changes until ctx ends. It asks permitted from time to time whether to go on.
func (s *stream) follow(ctx context.Context, w http.ResponseWriter, permitted func() bool) {
	var changes <-chan journal.Change
	if s.about == "" {
		changes = s.Journal.Subscribe(ctx)
	}
	beat := time.NewTicker(beatEvery)
	defer beat.Stop()
	var due <-chan time.Time // fires when a change may be told; nil: there is none
	last, sure := time.Now(), false
	wait := func() {
		if due == nil {
			due = time.After(s.console.streams.pace() - time.Since(last))
		}
	}
	for {
		select {
		case c, open := <-changes:
			if !open {
				return
			}
			if s.run != "" && c.Run != "" && c.Run != s.run {
				continue
			}
			sure = sure || c.Run != "" && (c.Run == s.run || s.viewer.All)
			wait()
		case <-s.sources:
			s.sources = nil
			wait()
		case <-due:
			if sure || s.changed(ctx) {
				s.send(w, "changed")
			}
			due, last, sure = nil, time.Now(), false
		case <-beat.C:
			if !permitted() {
				return
			}
			s.send(w, "beat")
		case <-s.Replaced:
			return
		case <-ctx.Done():
			return
		}
	}
}

// changed reports whether what the page shows has changed since it was last called. Calls within a run that goes on do not show in its row.
func (s *stream) changed(ctx context.Context) bool {
	before := s.shown
	if s.about == onSources {
		err := s.lookAtSources()
		return err != nil || s.shown != before
	}
	rows, err := s.look(ctx)
	return err != nil || s.shown != before || s.run != "" && len(rows) > 0 && rows[0].Status == journal.Running
}

// look reads the rows of the page.
func (s *stream) look(ctx context.Context) ([]journal.Row, error) {
	f := &journal.Filter{IDPrefix: s.run, Callers: s.own(), Scope: s.Scope, Limit: runsShown}
	if s.run != "" {
		f.Callers = s.decides()
	}
	rows, err := s.Journal.List(ctx, f)
	if err == nil && s.run == "" && s.viewer.DecidesFor != "" {
		var waiting []journal.Row
		waiting, err = s.Journal.List(ctx, s.waitingRuns(runsShown))
		rows = append(rows, waiting...)
	}
	s.shown = fmt.Sprintf("%+v", rows)
	return rows, err
}

// lookAtSources reads the sources of the page.
func (s *stream) lookAtSources() error {
	calls, err := s.Open(s.Context())
	if err != nil {
		return err
	}
	s.sources = calls.Catalog.Changed() // before they are read, so that no change is missed
	var shown strings.Builder
	for _, info := range s.view(calls).Sources() {
		fmt.Fprintln(&shown, info.Name, info.State, info.Since.UnixMicro(), info.Retry.UnixMicro(), info.Version, len(info.Functions))
		if info.Error != nil {
			fmt.Fprintln(&shown, info.Error.Code, info.Error.Message)
		}
	}
	s.shown = shown.String()
	return nil
}

func (s *stream) send(w http.ResponseWriter, event string) {
	_, _ = io.WriteString(w, "event: "+event+"\ndata: \n\n") // an error means that the browser has left, which ends ctx
	_ = http.NewResponseController(w).Flush()
}
