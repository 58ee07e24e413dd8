package telemetry

import (
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/onecall-mcp/onecall/chain"
)

// slowAfter has the ages at which a running request is logged. The last is below the default maximum duration of chains.
var slowAfter = [...]time.Duration{30 * time.Second, time.Minute, 2 * time.Minute, 4 * time.Minute}

// slowTimer is the timer that logs a slow request. The zero value has not started.
type slowTimer struct {
	mu      sync.Mutex
	timer   *time.Timer
	reports int // how often the request was logged as slow
	stopped bool
}

// armSlowTimer starts the timer for the next age.
func (r *request) armSlowTimer() {
	w := &r.slow
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.stopped && w.reports < len(slowAfter) {
		w.timer = time.AfterFunc(slowAfter[w.reports]-time.Since(r.observed.Started), r.reportSlow)
	}
}

func (r *request) reportSlow() {
	w := &r.slow
	w.mu.Lock()
	stopped := w.stopped
	w.reports++
	w.mu.Unlock()
	if !stopped {
		r.t.logSlow(r, time.Now())
		r.armSlowTimer()
	}
}

// stopSlowTimer stops the timer.
func (r *request) stopSlowTimer() {
	w := &r.slow
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
	if w.timer != nil {
		w.timer.Stop()
	}
}

func (t *Telemetry) logSlow(r *request, now time.Time) {
	l := make(line, 0, lineCapacity)
	l.addRequest(r)
	l.add(slog.String("fn", r.runningFunctions()))
	l.add(slog.Int("steps", r.observed.Steps))
	if r.observed.Kind == chain.KindChain {
		var ended int64 // the number of ended steps, including those of inline chains
		for i := range r.steps {
			ended += r.steps[i].Load()
		}
		l = append(l, slog.Int64("ended", ended))
	}
	l.add(slog.Int("request_bytes", r.observed.Bytes))
	l = append(l, elapsed(now.Sub(r.observed.Started)))
	t.log.LogAttrs(r, slog.LevelWarn, "a request is running long", l...)
}

// maxRunning is how many running steps of a request are tracked. A step takes a slot when it begins, if one is free, and releases it when
// it ends, so the slots fill up with slow steps.
const maxRunning = 4

// noSlot means that a step is not among the tracked steps.
const noSlot = -1

// trackStep records a step that calls a function if there is a free slot. It never blocks, as steps start by the thousand.
func (r *request) trackStep(s *step) {
	s.slot = noSlot
	if s.fn == "" { // its inner steps are more informative
		return
	}
	for i := range r.running {
		if r.running[i].Load() == nil && r.running[i].CompareAndSwap(nil, s) {
			s.slot = i
			return
		}
	}
}

// stepEnded records the end of a step.
func (r *request) stepEnded(s *step, e chain.StepEnd) {
	if i := slices.Index(statuses[:], e.Status); i >= 0 {
		r.steps[i].Add(1)
	}
	if s.slot != noSlot {
		r.running[s.slot].Store(nil)
	}
	if e.Took >= minSlowStep && s.fn != "" {
		r.keepSlowest(&slowest{s.fn, e.Took})
	}
}

// runningFunctions returns the names of the functions of the tracked steps, each once, separated by commas.
func (r *request) runningFunctions() string {
	var names []string
	for i := range r.running {
		if s := r.running[i].Load(); s != nil && !slices.Contains(names, s.fn) {
			names = append(names, s.fn)
		}
	}
	return strings.Join(names, ",")
}

// minSlowStep is the minimum duration of a step that is named in its request's record.
const minSlowStep = time.Second

// slowest is the slowest step of a request that called a function.
type slowest struct {
	fn   string
	took time.Duration
}

// keepSlowest keeps an ended step if it is the slowest so far.
func (r *request) keepSlowest(ended *slowest) {
	for {
		before := r.slowest.Load()
		if before != nil && before.took >= ended.took || r.slowest.CompareAndSwap(before, ended) {
			return
		}
	}
}
