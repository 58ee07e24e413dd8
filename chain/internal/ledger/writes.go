package ledger

import (
	"slices"
	"sync"

	"github.com/onecall-mcp/onecall/chain/internal/facts"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
)

// writeGroup is one or more calls of a step with the same outcome, of adjacent elements if it has a forEach.
type writeGroup struct {
	frame     *facts.Frame
	step      *facts.Planned
	rounds    bool           // repeat may call it several times
	elements  facts.Interval // -1 to -1 without forEach
	calls     int
	outcome   fault.Outcome
	unstarted bool // the elements never started
}

// writeLog has the calls that write, and the elements of a forEach that should have made one.
type writeLog struct {
	mu          sync.Mutex
	list        []writeGroup
	conflicting []*journal.PastCall // recorded calls that the caller must decide about
	reported    []*journal.PastCall // those of conflicting that a call of the chain at the same place reports
}

// markReported notes that a call of the chain reports a recorded call.
func (l *writeLog) markReported(c *journal.PastCall) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reported = append(l.reported, c)
}

// isConflicting reports whether addConflicting has added a call.
func (l *writeLog) isConflicting(c *journal.PastCall) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return has(l.conflicting, c)
}

// has reports whether a list has a recorded call, or a copy of it.
func has(list []*journal.PastCall, c *journal.PastCall) bool {
	return slices.ContainsFunc(list, func(have *journal.PastCall) bool { return have.N == c.N })
}

// addConflicting adds recorded calls that conflict with the chain.
func (l *writeLog) addConflicting(list ...*journal.PastCall) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range list {
		if !has(l.conflicting, c) {
			l.conflicting = append(l.conflicting, c)
		}
	}
}

// add logs a write. If it continues the last one, it is merged into that.
func (l *writeLog) add(w writeGroup) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.list); n > 0 {
		last := &l.list[n-1]
		isAdjacent := w.elements.First == last.elements.Last || w.elements.First == last.elements.Last+1
		if w.rounds {
			isAdjacent = w.elements == last.elements // keeps the number of calls of each element
		}
		if isAdjacent && last.step == w.step && last.frame == w.frame && last.outcome == w.outcome && last.unstarted == w.unstarted {
			last.elements.Last = w.elements.Last
			last.calls += w.calls
			return
		}
	}
	l.list = append(l.list, w)
}

// setOutcome changes the outcome of an applied call at a place.
func (l *writeLog) setOutcome(stepPath string, outcome fault.Outcome) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.list {
		group := l.list[i]
		n, ok := group.element(stepPath)
		if !ok || group.outcome != fault.Applied {
			continue
		}
		remaining := group.without(n)
		group.elements, group.calls, group.outcome = facts.Interval{First: n, Last: n}, 1, outcome
		l.list = append(slices.Replace(l.list, i, i+1, remaining...), group)
		return
	}
}

// path returns the path of the group's step, without elements.
func (w *writeGroup) path() []int { return append(w.frame.Path(), w.step.Number) }

// element returns the element that a place names, if it is in the group; -1: the step has no forEach.
func (w *writeGroup) element(stepPath string) (n int, ok bool) {
	path := facts.ParsePath(stepPath)
	n = path[len(path)-1]
	return n, slices.Equal(path[:len(path)-1], w.path()) && w.elements.First <= n && n <= w.elements.Last
}

// without returns the group without one call of an element.
func (w *writeGroup) without(n int) (list []writeGroup) {
	rest := *w
	if w.elements.First == w.elements.Last {
		if rest.calls--; rest.calls > 0 {
			list = append(list, rest)
		}
		return list
	}
	for _, elements := range []facts.Interval{{First: w.elements.First, Last: n - 1}, {First: n + 1, Last: w.elements.Last}} {
		if rest.elements, rest.calls = elements, elements.Last-elements.First+1; rest.calls > 0 {
			list = append(list, rest)
		}
	}
	return list
}

// removeStarted removes, from the elements that never started, those with recorded calls.
func (l *writeLog) removeStarted(calls []*journal.PastCall) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range calls {
		path := facts.ParsePath(c.StepPath)
		for i := range l.list {
			w := &l.list[i]
			prefix := w.path()
			if !w.unstarted || len(path) <= len(prefix) || !slices.Equal(path[:len(prefix)], prefix) {
				continue
			}
			if n := path[len(prefix)]; w.elements.First <= n && n <= w.elements.Last {
				l.list = slices.Replace(l.list, i, i+1, w.without(n)...)
				break
			}
		}
	}
}

// summarize sums up the log in the order of the steps, together with recorded writes that this run has not reached.
func (l *writeLog) summarize(before []*journal.PastCall) []*facts.Write {
	l.removeStarted(before)
	l.mu.Lock()
	defer l.mu.Unlock()
	type writeAt struct {
		path     []int
		elements facts.Interval
		fn       string
		calls    int
		outcome  fault.Outcome
	}
	sorted := make([]writeAt, len(l.list), len(l.list)+len(before))
	for i := range l.list {
		w := &l.list[i]
		sorted[i] = writeAt{append(w.path(), w.elements.First), w.elements, w.step.Name(), w.calls, w.outcome}
	}
	for _, c := range before {
		path := facts.ParsePath(c.StepPath)
		n := path[len(path)-1]
		sorted = append(sorted, writeAt{path, facts.Interval{First: n, Last: n}, c.Function, 1, c.KnownOutcome()})
	}
	slices.SortStableFunc(sorted, func(a, b writeAt) int { return slices.Compare(a.path, b.path) })
	type key struct {
		prefix, suffix string
		outcome        fault.Outcome
	}
	var list []*facts.Write
	known := map[key]*facts.Write{}
	for _, w := range sorted {
		prefix, interval, suffix := facts.SplitPath(w.path, w.elements)
		k := key{prefix, suffix, w.outcome}
		e := known[k]
		if e == nil {
			e = &facts.Write{Step: w.path[0], Prefix: prefix, Suffix: suffix, Inline: len(w.path) > 2, Fn: w.fn, Outcome: w.outcome}
			known[k], list = e, append(list, e)
		}
		e.Calls += w.calls
		if interval.First >= 0 {
			e.Elements = facts.AppendInterval(e.Elements, interval)
		}
	}
	for _, c := range l.conflicting {
		if !has(l.reported, c) {
			list = append(list, &facts.Write{At: c.StepPath, Fn: c.Function, Outcome: c.KnownOutcome(), Calls: 1})
		}
	}
	return list
}

// LogWrite logs the outcome of a call of a step, and its retries. rounds: repeat may call it several times.
func (l *Ledger) LogWrite(frame *facts.Frame, step *facts.Planned, index int, rounds bool, outcome fault.Outcome) {
	l.writes.add(writeGroup{frame, step, rounds, facts.Interval{First: index, Last: index}, 1, outcome, false})
}

// LogUnstarted logs elements of a step that never started.
func (l *Ledger) LogUnstarted(frame *facts.Frame, step *facts.Planned, list []facts.Interval) {
	for _, elements := range list {
		l.writes.add(writeGroup{frame, step, false, elements, elements.Last - elements.First + 1, fault.NotSent, true})
	}
}

// NoteUnknown notes a call whose outcome is not known.
func (l *Ledger) NoteUnknown(c *journal.PastCall) {
	l.writes.mu.Lock()
	defer l.writes.mu.Unlock()
	l.unknown = append(l.unknown, c)
}

// Conflicting returns the recorded calls that the run, which has followed the whole chain, does not contain, or whose outcome is not known.
func (l *Ledger) Conflicting() []*journal.PastCall { return append(l.Record.Unmatched(), l.unknown...) }

// Summary implements facts.Writes.
func (l *Ledger) Summary() []*facts.Write {
	var before []*journal.PastCall
	if l.Record != nil {
		before = slices.DeleteFunc(l.Record.Unreached(), func(c *journal.PastCall) bool {
			return slices.Contains(l.unknown, c) || l.writes.isConflicting(c)
		})
	}
	return l.writes.summarize(before)
}
