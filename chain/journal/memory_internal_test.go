package journal

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestMemoryOrder: however runs are added and expire, Memory has them in the order in which they began, and no gaps at the end, where it
// looks for the place of the next one.
func TestMemoryOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		m, began, added := &Memory{}, time.Unix(1_800_000_000, 0), 0
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			if added > 0 && rapid.IntRange(0, 3).Draw(rt, "step") == 0 {
				if err := m.Expire(t.Context(), time.Unix(int64(rapid.IntRange(0, 100).Draw(rt, "until")), 0), time.Time{}); err != nil {
					rt.Fatal(err)
				}
			} else {
				added++
				row := &Row{ID: "run_" + strconv.Itoa(added), Lease: 1,
					Began:   began.Add(time.Duration(rapid.IntRange(0, 50).Draw(rt, "began")) * time.Second),
					Expires: time.Unix(int64(rapid.IntRange(0, 100).Draw(rt, "expires")), 0)}
				if refused, err := m.Write(t.Context(), []Write{{ID: row.ID, Lease: 1, New: true, Row: row, Release: true}}); err != nil || refused[0] {
					rt.Fatal(refused, err)
				}
			}
			runs, gaps := 0, 0
			for at, r := range m.order {
				if r == nil {
					gaps++
				} else if runs++; r.at != at || m.runs[r.Row.ID] != r {
					rt.Fatalf("the run %s is at %d, and says %d", r.Row.ID, at, r.at)
				}
			}
			if n := len(m.order); runs != len(m.runs) || gaps != m.removed || n > 0 && m.order[n-1] == nil {
				rt.Fatalf("%d runs and %d gaps, want %d and %d, and none at the end: %v", runs, gaps, len(m.runs), m.removed, m.order)
			}
			rows, err := m.List(t.Context(), &Filter{})
			if err != nil || !slices.IsSortedFunc(rows, func(a, b Row) int { return b.Began.Compare(a.Began) }) {
				rt.Fatalf("%v, want them by when they began: %v", rows, err)
			}
		}
	})
}
