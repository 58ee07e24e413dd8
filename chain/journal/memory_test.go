package journal_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/chain/journal/journaltest"
)

func TestMemory(t *testing.T) {
	t.Parallel()
	journaltest.Run(t, func(*testing.T) journaltest.Store {
		m := &journal.Memory{}
		return journaltest.Store{Open: func(*testing.T) journal.Driver { return m }}
	})
}

// TestMemoryIsBounded: the oldest ended runs are removed first.
func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()
	m := &journal.Memory{}
	for i := range 100 {
		id := fmt.Sprint("run_", i)
		w := journal.Write{ID: id, Lease: 1, New: true, Row: &journal.Row{ID: id, Lease: 1, Began: time.Now()}, Release: i != 0,
			Segment: &journal.Segment{Lease: 1, First: 1, Results: make([]byte, 1<<20)}}
		if _, err := m.Write(t.Context(), []journal.Write{w}); err != nil {
			t.Fatal(err)
		}
	}
	rows, err := m.List(t.Context(), &journal.Filter{})
	if err != nil || len(rows) < 60 || len(rows) > 64 || rows[0].ID != "run_99" || rows[len(rows)-1].ID != "run_0" {
		t.Errorf("%d rows, want 60 to 64 with the oldest running: %v", len(rows), err)
	}
}
