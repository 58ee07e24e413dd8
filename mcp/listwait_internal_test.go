package mcp

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

// TestListWaitOfManyCallers: the lists of a caller wait once, and what is known of callers is bounded, however many there are.
func TestListWaitOfManyCallers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &Server{listsUntil: map[string]time.Time{}}
		until := s.callerListsUntil("ann")
		time.Sleep(time.Hour)
		if again := s.callerListsUntil("ann"); again != until {
			t.Errorf("the second list waits until %v, want %v as the first", again, until)
		}
		for i := range 2 * maxListCallers {
			s.callerListsUntil(strconv.Itoa(i))
			if len(s.listsUntil) > maxListCallers {
				t.Fatalf("%d callers are kept, want at most %d", len(s.listsUntil), maxListCallers)
			}
		}
	})
}
