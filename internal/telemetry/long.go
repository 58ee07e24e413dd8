package telemetry

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/onecall-mcp/onecall/chain"
)

// longAfter is when a request that is still running is told of, by its age. The last is before the longest chain ends, where
// nothing else is configured.
var longAfter = [...]time.Duration{30 * time.Second, time.Minute, 2 * time.Minute, 4 * time.Minute}

const (
	// lookEvery is how often the requests under way are looked at: a line is that much late at most.
	lookEvery = 5 * time.Second
	// mostLong bounds the lines of one look: those of the oldest.
	mostLong = 20
)

// underway are the requests under way. They are in several lists, as what all requests write to is slow; and there is one timer
// for them all, while there are any.
type underway struct {
	lists [16]struct {
		mu    sync.Mutex
		first *request
		_     [48]byte // two lists share no line of a processor's cache
	}
	timed atomic.Bool // the timer runs
}

// enter takes note of a request that begins.
func (t *Telemetry) enter(r *request) {
	t.running.Add(1)
	if !t.tellsLong {
		return
	}
	l := &t.underway.lists[r.list]
	l.mu.Lock()
	r.after = l.first
	if r.after != nil {
		r.after.before = r
	}
	l.first = r
	l.mu.Unlock()
	t.time()
}

// leave takes note of its end.
func (t *Telemetry) leave(r *request) {
	t.running.Add(-1)
	if !t.tellsLong {
		return
	}
	l := &t.underway.lists[r.list]
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.before == nil {
		l.first = r.after
	} else {
		r.before.after = r.after
	}
	if r.after != nil {
		r.after.before = r.before
	}
	r.before, r.after = nil, nil
}

// time has the requests under way looked at in a while, where nothing has yet.
func (t *Telemetry) time() {
	if u := &t.underway; !u.timed.Load() && u.timed.CompareAndSwap(false, true) {
		time.AfterFunc(lookEvery, t.look)
	}
}

// look tells of the requests that run long, and comes again while any is under way.
func (t *Telemetry) look() {
	t.tellLong(time.Now())
	t.underway.timed.Store(false)
	if t.running.Load() > 0 { // looked at after timed is false: who begins now sees that, or is seen
		t.time()
	}
}

// tellLong has a line for each request that has become so old since it was looked at before.
func (t *Telemetry) tellLong(now time.Time) {
	var long []*request
	for i := range t.underway.lists {
		l := &t.underway.lists[i]
		l.mu.Lock()
		for r := l.first; r != nil; r = r.after {
			before := r.told
			for age := now.Sub(r.about.Started); r.told < len(longAfter) && age >= longAfter[r.told]; {
				r.told++
			}
			if r.told > before {
				long = append(long, r)
			}
		}
		l.mu.Unlock()
	}
	slices.SortFunc(long, func(a, b *request) int { return a.about.Started.Compare(b.about.Started) })
	for _, r := range long[:min(len(long), mostLong)] {
		t.logLong(r, now)
	}
	if others := len(long) - mostLong; others > 0 {
		t.log.Warn("more requests are running long", "others", others)
	}
}

func (t *Telemetry) logLong(r *request, now time.Time) {
	l := line{make([]slog.Attr, 0, lineRoom)}
	l.who(r)
	l.text("fn", r.functions())
	l.number("steps", int64(r.about.Steps))
	if r.about.Kind == chain.KindChain {
		var ended int64 // those of inline chains included
		for i := range r.steps {
			ended += r.steps[i].Load()
		}
		l.attrs = append(l.attrs, slog.Int64("ended", ended))
	}
	l.number("request_bytes", int64(r.about.Bytes))
	l.took(now.Sub(r.about.Started))
	t.log.LogAttrs(r, slog.LevelWarn, "a request is running long", l.attrs...)
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

// rests takes note of its end.
func (r *request) rests(s *step) {
	if s.slot != none {
		r.running[s.slot].Store(nil)
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

// compared keeps a step that has ended where it is the slowest so far.
func (r *request) compared(s *step, took time.Duration) {
	if took < slowStep || s.fn == "" {
		return
	}
	for {
		before := r.slowest.Load()
		if before != nil && before.took >= took || r.slowest.CompareAndSwap(before, &slowest{s.fn, took}) {
			return
		}
	}
}

// tellsLong tells whether anybody reads that a request runs long.
func tellsLong(log *slog.Logger) bool { return log.Enabled(context.Background(), slog.LevelWarn) }
