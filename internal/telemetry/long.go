package telemetry

import (
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/onecall-mcp/onecall/chain"
)

// longAfter is when a request that is still running is told of, by its age. The last is before the longest chain ends, where
// nothing else is configured.
var longAfter = [...]time.Duration{30 * time.Second, time.Minute, 2 * time.Minute, 4 * time.Minute}

// longWatch is the timer that tells of a request which runs long. The zero value has not begun.
type longWatch struct {
	mu    sync.Mutex
	timer *time.Timer
	told  int // how often it was told of
	over  bool
}

// watch has the request told of at the next of these ages.
func (r *request) watch() {
	w := &r.long
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.over && w.told < len(longAfter) {
		w.timer = time.AfterFunc(longAfter[w.told]-time.Since(r.about.Started), r.runsLong)
	}
}

func (r *request) runsLong() {
	w := &r.long
	w.mu.Lock()
	over := w.over
	w.told++
	w.mu.Unlock()
	if !over {
		r.t.logLong(r, time.Now())
		r.watch()
	}
}

// unwatch ends it.
func (r *request) unwatch() {
	w := &r.long
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	if w.timer != nil {
		w.timer.Stop()
	}
}

func (t *Telemetry) logLong(r *request, now time.Time) {
	l := make(line, 0, lineRoom)
	l.who(r)
	l.add(slog.String("fn", r.functions()))
	l.add(slog.Int("steps", r.about.Steps))
	if r.about.Kind == chain.KindChain {
		var ended int64 // those of inline chains included
		for i := range r.steps {
			ended += r.steps[i].Load()
		}
		l = append(l, slog.Int64("ended", ended))
	}
	l.add(slog.Int("request_bytes", r.about.Bytes))
	l = append(l, took(now.Sub(r.about.Started)))
	t.log.LogAttrs(r, slog.LevelWarn, "a request is running long", l...)
}

// mostRunning is how many of the steps of a request that run are known: those that began first, which are those that last.
const mostRunning = 4

// none is no slot.
const none = -1

// runs takes note of a step that calls a function, where there is room. Nothing is waited for, as steps begin by the thousand.
func (r *request) runs(s *step) {
	s.slot = none
	if s.fn == "" { // the steps of an inline chain tell more than it does
		return
	}
	for i := range r.running {
		if r.running[i].Load() == nil && r.running[i].CompareAndSwap(nil, s) {
			s.slot = i
			return
		}
	}
}

// ended takes note of its end.
func (r *request) ended(s *step, e chain.StepEnded) {
	if i := slices.Index(statuses[:], e.Status); i >= 0 {
		r.steps[i].Add(1)
	}
	if s.slot != none {
		r.running[s.slot].Store(nil)
	}
	if e.Took >= slowStep && s.fn != "" {
		r.compare(&slowest{s.fn, e.Took})
	}
}

// functions are those that the running steps call, each once.
func (r *request) functions() string {
	var names []string
	for i := range r.running {
		if s := r.running[i].Load(); s != nil && !slices.Contains(names, s.fn) {
			names = append(names, s.fn)
		}
	}
	return strings.Join(names, ",")
}

// slowStep is from when on a step is told of in the line of its request.
const slowStep = time.Second

// slowest is the slowest step of a request that called a function.
type slowest struct {
	fn   string
	took time.Duration
}

// compare keeps a step that has ended if it is the slowest so far.
func (r *request) compare(one *slowest) {
	for {
		before := r.slowest.Load()
		if before != nil && before.took >= one.took || r.slowest.CompareAndSwap(before, one) {
			return
		}
	}
}
