package memstore

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onecall-mcp/onecall/budget"
)

func TestExpiredAreReleased(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, err := New(nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 100 {
			now := time.Now()
			e := budget.Entry{Created: now, Expires: now.Add(time.Duration(i+1) * time.Second), Value: make([]byte, 1000)}
			if err := s.Put(t.Context(), fmt.Sprint(i), e); err != nil {
				t.Fatal(err)
			}
		}
		held := func() int {
			synctest.Wait()
			s.mu.Lock()
			defer s.mu.Unlock()
			return len(s.results)
		}
		time.Sleep(sweepInterval)
		if n := held(); n != 40 {
			t.Errorf("%d results held after a minute, want the 40 live ones", n)
		}
		time.Sleep(sweepInterval)
		if n := held(); n != 0 || s.shares.Total() != 0 {
			t.Errorf("%d results of %d bytes held after all expired, want none", n, s.shares.Total())
		}
		if s.sweeper != nil {
			t.Error("an empty store still has a timer")
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}
