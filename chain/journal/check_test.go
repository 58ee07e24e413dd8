package journal_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onecall-mcp/onecall/chain/journal"
)

// smallDriver is a driver with little room.
type smallDriver struct {
	journal.Memory
	full error
}

func (s *smallDriver) Write(ctx context.Context, list []journal.Write) ([]bool, error) {
	if s.full != nil {
		return nil, s.full
	}
	return s.Memory.Write(ctx, list)
}

// TestCheckRemembersFailures: after a failed write, Check fails for a while, although small writes would succeed, or until a write
// succeeds.
func TestCheckRemembersFailures(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &smallDriver{}
		j, err := journal.New(d, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer j.Close()
		begin := func(key string) error {
			return j.Begin(&journal.Start{Key: key, Hash: func() string { return "" }, Text: []byte("{}")}).Claim()
		}
		failCheck := func() {
			t.Helper()
			if d.full = errors.New("the disk is full"); begin("a") == nil || !errors.Is(j.Check(t.Context()), d.full) {
				t.Fatalf("Check after a failed write: %v, want %v", j.Check(t.Context()), d.full)
			}
		}
		failCheck()
		time.Sleep(11 * time.Second)
		if err := j.Check(t.Context()); err != nil {
			t.Errorf("Check 11 s after the failure: %v", err)
		}
		failCheck()
		if d.full = nil; begin("b") != nil || j.Check(t.Context()) != nil {
			t.Errorf("Check after a successful write: %v, want none", j.Check(t.Context()))
		}
	})
}
