package chain

import (
	"errors"
	"slices"
	"sort"
	"sync"

	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// enclosing is an inline chain under way: the step that it stands in, and the element of that step's forEach.
type enclosing struct {
	outer *enclosing // nil: the step is one of the outermost chain
	step  int
	index int // -1: the step has no forEach
}

// interval is a range of elements, both ends included.
type interval struct{ first, last int }

// appendInterval adds an interval that begins at or after the first element of the last one.
func appendInterval(list []interval, s interval) []interval {
	if n := len(list); n > 0 && s.first <= list[n-1].last+1 {
		list[n-1].last = max(list[n-1].last, s.last)
		return list
	}
	return append(list, s)
}

// write is one or more calls of a step, of adjacent elements if it has a forEach, with the same outcome.
type write struct {
	within  *enclosing
	step    *plannedStep
	of      interval // elements; -1 to -1 without forEach
	calls   int
	outcome fault.Outcome
	left    bool // elements that never started
}

// writeLog has the calls of functions that write, and the elements of a forEach that should have made one.
type writeLog struct {
	mu       sync.Mutex
	list     []write
	standing []*journal.PastCall // that the run has made before, and that somebody has to say something of
	there    []*journal.PastCall // of these, that the chain makes at the same place, which tells of them
}

// isThere logs that a call of the chain tells of one that the run has made before.
func (l *writeLog) isThere(c *journal.PastCall) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.there = append(l.there, c)
}

// isStanding reports whether stands has logged a call.
func (l *writeLog) isStanding(c *journal.PastCall) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.standing, func(have *journal.PastCall) bool { return have.N == c.N })
}

// stands logs calls that the run has made before, and that are in conflict with the chain as it is now.
func (l *writeLog) stands(list ...*journal.PastCall) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range list {
		if !slices.ContainsFunc(l.standing, func(have *journal.PastCall) bool { return have.N == c.N }) {
			l.standing = append(l.standing, c)
		}
	}
}

// wrote logs the outcome of a call with its retries; "": it was not made, which only a forEach has to account for.
func (r *run) wrote(p *plannedStep, s *stepRun, outcome fault.Outcome) {
	if outcome == "" {
		if p.forEach == nil {
			return
		}
		outcome = fault.NotSent
	}
	s.outcome = outcome
	r.writes.add(write{s.within, p, interval{s.index, s.index}, 1, outcome, false})
}

// leftOut logs the elements that never started.
func (r *run) leftOut(p *plannedStep, s *stepRun) {
	if p.effect == steps.Read {
		return
	}
	for _, of := range s.unstarted {
		r.writes.add(write{s.within, p, of, of.last - of.first + 1, fault.NotSent, true})
	}
}

// add logs a write, with the last one if it goes on with it.
func (l *writeLog) add(w write) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.list); n > 0 {
		last := &l.list[n-1]
		goesOn := w.of.first == last.of.last || w.of.first == last.of.last+1
		if w.step.until != nil {
			goesOn = w.of == last.of // how many calls each element has made stays known
		}
		if goesOn && last.step == w.step && last.within == w.within && last.outcome == w.outcome && last.left == w.left {
			last.of.last = w.of.last
			last.calls += w.calls
			return
		}
	}
	l.list = append(l.list, w)
}

// becomes takes note that a call at a place that was applied is so no more: of those of adjacent elements it is one.
func (l *writeLog) becomes(place string, outcome fault.Outcome) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.list {
		one := l.list[i]
		n, found := one.element(place)
		if !found || one.outcome != fault.Applied {
			continue
		}
		others := one.without(n)
		one.of, one.calls, one.outcome = interval{n, n}, 1, outcome
		l.list = append(slices.Replace(l.list, i, i+1, others...), one)
		return
	}
}

// path is the write's place up to its elements.
func (w *write) path() []int { return append(w.within.path(), w.step.number) }

// element is the element of a write that a place names; -1: its step has no forEach.
func (w *write) element(place string) (n int, found bool) {
	path := stepsOf(place)
	n = path[len(path)-1]
	return n, slices.Equal(path[:len(path)-1], w.path()) && w.of.first <= n && n <= w.of.last
}

// without are the calls of a write but for one of an element.
func (w *write) without(n int) (list []write) {
	own := *w
	if w.of.first == w.of.last {
		if own.calls--; own.calls > 0 {
			list = append(list, own)
		}
		return list
	}
	for _, of := range []interval{{w.of.first, n - 1}, {n + 1, w.of.last}} {
		if own.of, own.calls = of, of.last-of.first+1; own.calls > 0 {
			list = append(list, own)
		}
	}
	return list
}

// started leaves out of the elements that never started those of which an earlier part of the run has made calls.
func (l *writeLog) started(calls []*journal.PastCall) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range calls {
		path := stepsOf(c.Place)
		for i := range l.list {
			w := &l.list[i]
			own := w.path()
			if !w.left || len(path) <= len(own) || !slices.Equal(path[:len(own)], own) {
				continue
			}
			if n := path[len(own)]; w.of.first <= n && n <= w.of.last {
				l.list = slices.Replace(l.list, i, i+1, w.without(n)...)
				break
			}
		}
	}
}

// outcomeOfCall is the outcome of a call that ended so; "": it was refused before it was made.
func outcomeOfCall(f *fault.Error) fault.Outcome {
	switch {
	case f == nil:
		return fault.Applied
	case errors.Is(f, errNoCalls):
		return ""
	}
	return fault.OutcomeOf(f)
}

// writeEntry is what an answer says of the writes of one step with one outcome.
type writeEntry struct {
	at             string // of a call of the run that the chain does not make: where the run made it; "": the others say where it is
	step           int    // of the outermost chain
	prefix, suffix string // the step's place around the elements: "3", ".1"
	fn             string // "": an inline chain of which nothing began
	outcome        fault.Outcome
	inline         bool
	elements       []interval
	calls          int
}

// entries sums up the log in the order of the steps, and what an earlier part of the run has written that this one has not come to.
func (l *writeLog) entries(before []*journal.PastCall) []*writeEntry {
	l.started(before)
	l.mu.Lock()
	defer l.mu.Unlock()
	type located struct {
		path    []int
		of      interval
		fn      string
		calls   int
		outcome fault.Outcome
	}
	sorted := make([]located, len(l.list), len(l.list)+len(before))
	for i := range l.list {
		w := &l.list[i]
		sorted[i] = located{append(w.path(), w.of.first), w.of, w.step.name(), w.calls, w.outcome}
	}
	for _, c := range before {
		path := stepsOf(c.Place)
		n := path[len(path)-1]
		sorted = append(sorted, located{path, interval{n, n}, c.Function, 1, c.Known()})
	}
	slices.SortStableFunc(sorted, func(a, b located) int { return slices.Compare(a.path, b.path) })
	type key struct {
		prefix, suffix string
		outcome        fault.Outcome
	}
	var list []*writeEntry
	known := map[key]*writeEntry{}
	for _, w := range sorted {
		prefix, of, suffix := split(w.path, w.of)
		k := key{prefix, suffix, w.outcome}
		e := known[k]
		if e == nil {
			e = &writeEntry{step: w.path[0], prefix: prefix, suffix: suffix, inline: len(w.path) > 2, fn: w.fn, outcome: w.outcome}
			known[k], list = e, append(list, e)
		}
		e.calls += w.calls
		if of.first >= 0 {
			e.elements = appendInterval(e.elements, of)
		}
	}
	for _, c := range l.standing {
		if slices.ContainsFunc(l.there, func(have *journal.PastCall) bool { return have.N == c.N }) {
			continue
		}
		list = append(list, &writeEntry{at: c.Place, fn: c.Function, outcome: c.Known(), calls: 1})
	}
	return list
}

// path gives the numbers and elements of the steps that an inline chain stands in, from the outermost on.
func (n *enclosing) path() []int {
	if n == nil {
		return nil
	}
	return append(n.outer.path(), n.step, n.index)
}

// written is what the answer can say of writes.
func (d *draft) written() []*writeEntry {
	if !d.summed {
		var before []*journal.PastCall
		if d.run != nil && d.record != nil {
			before = slices.DeleteFunc(d.record.Unreached(), func(c *journal.PastCall) bool {
				return slices.Contains(d.run.doubts, c) || d.writes.isStanding(c)
			})
		}
		d.summed, d.entries = true, d.writes.entries(before)
	}
	return d.entries
}

// renderWrites tells of a failure what was written: as many entries as t has, and of the others their number by outcome.
func (d *draft) renderWrites(w *writer, t *trim) {
	if len(d.written()) == 0 {
		return
	}
	w.key("writes")
	w.b = append(w.b, '[')
	listed := min(t.writes, len(d.entries))
	for _, e := range d.entries[:listed] {
		d.renderWrite(w, e)
	}
	counts := map[fault.Outcome]int{}
	for _, e := range d.entries[listed:] {
		counts[e.outcome] += e.calls
	}
	for _, outcome := range fault.Outcomes() {
		if n := counts[outcome]; n > 0 {
			w.open('{')
			w.int("count", int64(n))
			w.text("outcome", string(outcome))
			w.close('}')
		}
	}
	w.close(']')
}

func (d *draft) renderWrite(w *writer, e *writeEntry) {
	w.open('{')
	places, elements := 1, rangesOf(e.elements)
	if elements != "" {
		places = sizeOf(e.elements)
	}
	switch {
	case e.at != "":
		w.text("at", e.at)
	case d.single == nil:
		w.step(e.step, d.idOf(e.step))
		switch {
		case e.suffix != "":
			w.text("in", e.prefix+"["+elements+"]"+e.suffix)
		case e.inline:
			w.text("in", e.prefix)
		}
		if elements != "" && e.suffix == "" {
			w.text("elements", elements)
		}
	}
	if e.fn != "" {
		w.text("fn", e.fn)
	}
	if e.calls != places {
		w.int("count", int64(e.calls))
	}
	w.text("outcome", string(e.outcome))
	w.close('}')
}

// fewerWrites lists as many of the writes as fit.
func (d *draft) fewerWrites(t *trim) {
	if d.err == nil || len(d.written()) == 0 {
		return
	}
	t.writes = sort.Search(len(d.entries), func(n int) bool {
		with := *t
		with.writes = n + 1
		_, fits := d.render(&with)
		return !fits
	})
}
