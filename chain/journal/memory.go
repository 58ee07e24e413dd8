package journal

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"
)

// maxMemory bounds, in bytes, what Memory stores. The oldest ended runs are removed first.
const maxMemory = 64 << 20

// Memory is a driver that stores runs in memory, for libraries and tests. The zero value is ready to use.
type Memory struct {
	mu      sync.Mutex
	runs    map[string]*memoryRun
	order   []*memoryRun // the runs in the order in which they began; nil: removed
	days    map[dayKey]*Day
	keys    map[runKey]string // the ids of the runs that have a key
	bytes   int
	removed int // how many entries of order are nil
	state   memoryState
}

type memoryRun struct {
	Record
	leased bool
	bytes  int
	at     int // its index in order
}

type runKey struct{ caller, key string }

type dayKey struct{ day, caller, chain, function string }

// Write implements Driver.
func (m *Memory) Write(_ context.Context, list []Write) (refused []bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	refused = make([]bool, len(list))
	for i := range list {
		refused[i] = !m.write(&list[i])
	}
	for at := 0; m.bytes > maxMemory && at < len(m.order); at++ {
		if r := m.order[at]; r != nil && !r.leased {
			m.remove(r)
		}
	}
	m.compact()
	return refused, nil
}

// write carries out one write; false: it is refused.
func (m *Memory) write(w *Write) bool {
	r := m.runs[w.ID]
	switch {
	case r == nil && w.New && (w.Row.Key == "" || m.keys[runKey{w.Row.Caller, w.Row.Key}] == ""):
		r = m.insert(w)
	case r == nil || r.Row.Lease != w.Lease && !w.Late:
		return false
	}
	if w.State != nil {
		m.state.change(w)
	}
	if w.Row != nil {
		tokens, stored := r.Row.Tokens, r.Row.Stored
		r.Row = *w.Row
		r.Row.Tokens, r.Row.Stored = tokens, stored
	}
	r.Row.Tokens, r.Row.Stored = r.Row.Tokens+w.Tokens, r.Row.Stored+w.Stored
	if w.Segment != nil {
		m.addSegment(r, w.Segment)
	}
	if w.DropResults {
		for i := range r.Segments {
			m.grow(r, -len(r.Segments[i].Results))
			r.Segments[i].Results = nil
		}
	}
	if w.Release && r.Row.Lease == w.Lease {
		r.leased = false
	}
	for i := range w.Days {
		m.addDay(&w.Days[i])
	}
	return true
}

// addSegment adds a segment to a run, unless the run has it already.
func (m *Memory) addSegment(r *memoryRun, s *Segment) {
	at, known := slices.BinarySearchFunc(r.Segments, *s,
		func(a, b Segment) int { return cmp.Or(cmp.Compare(a.Lease, b.Lease), cmp.Compare(a.First, b.First)) })
	if known {
		return
	}
	r.Segments = slices.Insert(r.Segments, at, *s)
	r.Written++
	m.grow(r, len(s.Events)+len(s.Results)+len(s.Retained))
}

const rowBytes = 400 // the approximate size of a run without its segments

func (m *Memory) insert(w *Write) *memoryRun {
	if m.runs == nil {
		m.runs, m.days, m.keys = map[string]*memoryRun{}, map[dayKey]*Day{}, map[runKey]string{}
	}
	r := &memoryRun{leased: true, at: len(m.order)}
	for r.at > 0 && (m.order[r.at-1] == nil || m.order[r.at-1].Row.Began.After(w.Row.Began)) { // few: runs are added soon after they begin
		r.at--
	}
	if w.Row.Key != "" {
		m.keys[runKey{w.Row.Caller, w.Row.Key}] = w.ID
	}
	m.runs[w.ID] = r
	m.order = slices.Insert(m.order, r.at, r)
	for at, later := range m.order[r.at+1:] {
		if later != nil {
			later.at = r.at + 1 + at
		}
	}
	m.grow(r, rowBytes)
	return r
}

func (m *Memory) grow(r *memoryRun, n int) {
	r.bytes += n
	m.bytes += n
}

func (m *Memory) remove(r *memoryRun) {
	delete(m.runs, r.Row.ID)
	delete(m.keys, runKey{r.Row.Caller, r.Row.Key})
	m.order[r.at] = nil
	m.bytes -= r.bytes
	m.removed++
	for n := len(m.order); n > 0 && m.order[n-1] == nil; n-- { // insert looks from the end
		m.order = m.order[:n-1]
		m.removed--
	}
}

// compact closes the gaps in order.
func (m *Memory) compact() {
	if m.removed < 1000 || m.removed < len(m.order)/2 {
		return
	}
	m.order = slices.DeleteFunc(m.order, func(r *memoryRun) bool { return r == nil })
	for i, r := range m.order {
		r.at = i
	}
	m.removed = 0
}

func (m *Memory) addDay(d *Day) {
	key := dayKey{d.Day, d.Caller, d.Chain, d.Function}
	sum := m.days[key]
	if sum == nil {
		sum = &Day{Day: d.Day, Caller: d.Caller, Chain: d.Chain, Function: d.Function}
		m.days[key] = sum
	}
	sum.Add(d)
}

// Acquire implements Driver.
func (m *Memory) Acquire(_ context.Context, id string, caller *string) (*Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.runs[id]
	switch {
	case r == nil, caller != nil && r.Row.Caller != *caller:
		return nil, ErrNotFound
	case r.leased:
		return nil, ErrBusy
	}
	r.leased = true
	r.Row.Lease++
	return r.copy(), nil
}

func (r *memoryRun) copy() *Record {
	return &Record{Row: r.row(), Segments: slices.Clone(r.Segments), Written: r.Written}
}

func (r *memoryRun) row() Row {
	row := r.Row
	if row.Status == Running && !r.leased && !row.Batch {
		row.Status = Interrupted
	}
	return row
}

// Load implements Driver.
func (m *Memory) Load(_ context.Context, id string, lease int64, first int) (*Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.runs[id]
	if r == nil {
		return nil, ErrNotFound
	}
	rec := r.copy()
	rec.Segments = slices.DeleteFunc(rec.Segments, func(s Segment) bool { return !s.isAfter(lease, first) })
	return rec, nil
}

// isAfter reports whether a segment follows the one with this lease and first number.
func (s *Segment) isAfter(lease int64, first int) bool {
	return s.Lease > lease || s.Lease == lease && s.First > first
}

// Version implements Driver.
func (m *Memory) Version(context.Context) (version string, again time.Duration, err error) {
	return "", 0, nil
}

// LoadRow implements Driver.
func (m *Memory) LoadRow(_ context.Context, id string) (*Row, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.runs[id]; r != nil {
		row := r.row()
		return &row, nil
	}
	return nil, ErrNotFound
}

// Find implements Driver.
func (m *Memory) Find(_ context.Context, caller, key string) (id string, expires time.Time, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range slices.Backward(m.order) {
		if r != nil && r.Row.Key == key && r.Row.Caller == caller {
			return r.Row.ID, r.Row.Expires, nil
		}
	}
	return "", time.Time{}, ErrNotFound
}

// List implements Driver.
func (m *Memory) List(_ context.Context, f *Filter) (rows []Row, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	order := m.order
	if f.Before != nil {
		if r := m.runs[f.Before.ID]; r != nil {
			order = order[:r.at]
		}
	}
	for _, r := range slices.Backward(order) {
		if r == nil {
			continue
		}
		row := r.row()
		if !f.matches(&row) {
			continue
		}
		if rows = append(rows, row); len(rows) == f.Limit {
			break
		}
	}
	return rows, nil
}

func (f *Filter) matches(r *Row) bool {
	return f.matchesBoth(r.Caller, r.Chain) && strings.HasPrefix(r.ID, f.IDPrefix) && (f.Parent == nil || *f.Parent == r.Parent) &&
		(f.Scope == nil || *f.Scope == r.Scope) &&
		(f.Status == "" || f.Status == r.Status) && (f.Code == "" || f.Code == r.Code) && !(f.NotOK && r.Status == OK) && (!f.AtWorkers || r.mayBeAtWorkers()) &&
		(f.Function == "" || slices.Contains(r.Functions, f.Function)) &&
		!r.Began.Before(f.Since) && (f.Until.IsZero() || r.Began.Before(f.Until)) &&
		(f.Before == nil || r.Began.UnixMicro() <= f.Before.Began.UnixMicro())
}

// Parts implements Driver.
func (m *Memory) Parts(_ context.Context, runs []string) (map[string]Parts, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	counts := map[string]Parts{}
	for _, r := range m.runs {
		row := r.row()
		if row.Parent == "" || !slices.Contains(runs, row.Parent) {
			continue
		}
		if counts[row.Parent] == nil {
			counts[row.Parent] = Parts{}
		}
		counts[row.Parent][row.Status]++
	}
	return counts, nil
}

// Days implements Driver.
func (m *Memory) Days(_ context.Context, f *Filter) (days []Day, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, d := range m.days {
		if f.matchesDay(d) {
			copied := Day{Day: d.Day, Caller: d.Caller, Chain: d.Chain, Function: d.Function}
			copied.Add(d)
			days = append(days, copied)
		}
	}
	return days, nil
}

// matchesBoth reports whether rows and days of a caller and a chain match, as far as these two decide.
func (f *Filter) matchesBoth(caller, chain string) bool {
	return (len(f.Callers) == 0 || slices.Contains(f.Callers, caller)) && (len(f.Chains) == 0 || slices.Contains(f.Chains, chain))
}

func (f *Filter) matchesDay(d *Day) bool {
	return f.matchesBoth(d.Caller, d.Chain) && (f.Function == "" || f.Function == d.Function) &&
		(len(f.Functions) == 0 || slices.Contains(f.Functions, d.Function)) &&
		(f.Since.IsZero() || d.Day >= DayOf(f.Since)) && (f.Until.IsZero() || d.Day <= DayOf(f.Until))
}

// Expire implements Driver.
func (m *Memory) Expire(_ context.Context, at, days time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.runs {
		if !r.leased && r.Row.Expires.Before(at) {
			m.remove(r)
		}
	}
	for key := range m.days {
		if key.day < DayOf(days) {
			delete(m.days, key)
		}
	}
	m.state.expire()
	m.compact()
	return nil
}

// Check implements Driver.
func (m *Memory) Check(context.Context) error { return nil }

// Verify implements Driver.
func (m *Memory) Verify(context.Context) error { return nil }

// Close implements Driver. What was written can still be read.
func (m *Memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.runs {
		r.leased = false
	}
	return nil
}
