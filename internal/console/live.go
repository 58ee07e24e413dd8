package console

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/onecall-mcp/onecall/chain/journal"
)

const (
	beatEvery   = 15 * time.Second       // the longest time between two events of a stream; build/console.mjs counts on it
	changeEvery = 250 * time.Millisecond // the shortest time between two changes that a stream tells
	changeShare = 75 * time.Millisecond  // what each open stream adds to it, so that many pages do not slow down the runs that they show
)

// stream is the stream of events of a page. It says only that something on the page has changed, and the page asks for itself again. So
// whatever a viewer may not see is not even told of by its time.
type stream struct {
	*request
	run   string // the run that the page shows; "": it lists the newest runs
	shown string // what the page showed when the stream last looked
}

// events answers with a stream, until the viewer's rights change.
func (c *console) events(w http.ResponseWriter, r *http.Request) {
	req, done := c.admit(w, r)
	if req == nil {
		return
	}
	defer done()
	s := &stream{request: req, run: r.URL.Query().Get("run")}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	if err := s.open(ctx); err != nil {
		c.show(w, req, faultPage(err))
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // nginx holds events back
	c.streams.Add(1)
	defer c.streams.Add(-1)
	s.send(w, "changed") // since the page was shown
	s.follow(ctx, w, func() bool {
		now, err := c.Identify(ctx, req.credential)
		return err == nil && *now == *req.viewer
	})
}

// pace returns the time between two changes that a stream tells while there are as many streams as now.
func (c *console) pace() time.Duration {
	return max(changeEvery, time.Duration(c.streams.Load())*changeShare)
}

// open checks that the viewer may see what the stream is about.
func (s *stream) open(ctx context.Context) error {
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
	changes := s.Journal.Subscribe(ctx)
	beat := time.NewTicker(beatEvery)
	defer beat.Stop()
	var due <-chan time.Time // fires when a change may be told; nil: there is none
	last, sure := time.Now(), false
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
			if due == nil {
				due = time.After(s.console.pace() - time.Since(last))
			}
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
		case <-ctx.Done():
			return
		}
	}
}

// changed reports whether what the page shows has changed since it was last called. Calls within a run that goes on do not show in its row.
func (s *stream) changed(ctx context.Context) bool {
	before := s.shown
	rows, err := s.look(ctx)
	return err != nil || s.shown != before || s.run != "" && len(rows) > 0 && rows[0].Status == journal.Running
}

// look reads the rows of the page.
func (s *stream) look(ctx context.Context) ([]journal.Row, error) {
	rows, err := s.Journal.List(ctx, &journal.Filter{IDPrefix: s.run, Caller: s.owner(), Limit: runsShown})
	s.shown = fmt.Sprintf("%+v", rows)
	return rows, err
}

func (s *stream) send(w http.ResponseWriter, event string) {
	_, _ = io.WriteString(w, "event: "+event+"\ndata: \n\n") // an error means that the browser has left, which ends ctx
	_ = http.NewResponseController(w).Flush()
}
