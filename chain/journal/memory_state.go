package journal

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"
)

// memoryState has the values of state of a Memory, beside its bound: each owner has its own. The zero value has none.
type memoryState struct {
	rows   map[StateKey]*StateRow
	owners map[string]*memoryOwner
}

type memoryOwner struct{ version, bytes int64 }

// owner returns the owner of a value, which is there from then on.
func (s *memoryState) owner(of string) *memoryOwner {
	if s.rows == nil {
		s.rows, s.owners = map[StateKey]*StateRow{}, map[string]*memoryOwner{}
	}
	owner := s.owners[of]
	if owner == nil {
		owner = &memoryOwner{}
		s.owners[of] = owner
	}
	return owner
}

// change carries out the change of state of a write.
func (s *memoryState) change(w *Write) {
	key, now := w.State.StateKey, time.Now()
	owner := s.owner(key.Owner)
	owner.version++
	at := &StateView{Next: owner.version, Size: owner.bytes, Now: now}
	if row := s.rows[key]; row != nil {
		at.Size -= int64(row.Size)
		if row.Expires.After(now) {
			at.Row = row
		}
	}
	result := w.State.Decide(at, w)
	switch {
	case result.Row != nil:
		row := *result.Row
		row.StateKey = key
		s.rows[key], owner.bytes = &row, at.Size+int64(row.Size)
	case result.Remove:
		delete(s.rows, key)
		owner.bytes = at.Size
	}
}

func (s *memoryState) expire() {
	now := time.Now()
	s.remove(func(row *StateRow) bool { return !row.Expires.After(now) })
}

// RemoveStates implements Driver.
func (m *Memory) RemoveStates(_ context.Context, owner string, spaces []string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state.remove(func(row *StateRow) bool { return row.Owner == owner && slices.Contains(spaces, row.Space) })
	return nil
}

// remove removes the values that goes accepts.
func (s *memoryState) remove(goes func(*StateRow) bool) {
	for key, row := range s.rows {
		if goes(row) {
			s.owners[key.Owner].bytes -= int64(row.Size)
			delete(s.rows, key)
		}
	}
}

// MarkState implements Driver.
func (m *Memory) MarkState(_ context.Context, key StateKey, ttl time.Duration) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state.owner(key.Owner)
	row, expires := m.state.rows[key], time.Now().Add(ttl)
	if row == nil || row.Expires.Before(expires) {
		m.state.rows[key] = &StateRow{StateKey: key, Expires: expires}
	}
	return nil
}

// KeepState implements Driver.
func (m *Memory) KeepState(_ context.Context, row *StateRow, ttl time.Duration, absent bool) (kept bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state.owner(row.Owner)
	now := time.Now()
	if known := m.state.rows[row.StateKey]; absent && known != nil && known.Expires.After(now) {
		return false, nil
	}
	m.state.rows[row.StateKey] = &StateRow{StateKey: row.StateKey, Expires: now.Add(ttl), Sealed: row.Sealed}
	return true, nil
}

// States implements Driver.
func (m *Memory) States(_ context.Context, f *StateFilter) (list []StateRow, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	if f.Names != nil && !f.AnySpace {
		for _, name := range f.Names {
			list = appendState(list, m.state.rows[StateKey{f.Owner, f.Space, name}], f, now)
		}
	} else {
		for _, row := range m.state.rows {
			list = appendState(list, row, f, now)
		}
	}
	slices.SortFunc(list, func(a, b StateRow) int { return cmp.Or(cmp.Compare(a.Space, b.Space), cmp.Compare(a.Name, b.Name)) })
	list = slices.CompactFunc(list, func(a, b StateRow) bool { return a.StateKey == b.StateKey })
	list = list[min(f.Offset, len(list)):]
	if f.Limit > 0 {
		list = list[:min(f.Limit, len(list))]
	}
	return list, nil
}

// appendState appends a row if it matches.
func appendState(list []StateRow, row *StateRow, f *StateFilter, now time.Time) []StateRow {
	if row == nil || row.Owner != f.Owner || !f.AnySpace && row.Space != f.Space || !row.Expires.After(now) ||
		f.Names != nil && !slices.Contains(f.Names, row.Name) || !strings.HasPrefix(row.Name, f.Prefix) {
		return list
	}
	found := *row
	if !f.Values {
		found.Sealed = nil
	}
	return append(list, found)
}

// AwaitState implements Driver: a write ends before it returns.
func (m *Memory) AwaitState(context.Context, string) error { return nil }
