package journal_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onecall-mcp/onecall/chain/journal"
)

// small is a driver with little room.
type small struct {
	journal.Memory
	full error
}

func (s *small) Write(ctx context.Context, list []journal.Write) ([]bool, error) {
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
		d := &small{}
		j, err := journal.New(d, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer j.Close()
		begin := func(key string) error {
			return j.Begin(&journal.Start{Key: key, Hash: func() string { return "" }, Text: []byte("{}")}).Claim()
		}
		fails := func() {
			t.Helper()
			if d.full = errors.New("the disk is full"); begin("a") == nil || !errors.Is(j.Check(t.Context()), d.full) {
				t.Fatalf("it is well: %v", j.Check(t.Context()))
			}
		}
		fails()
		time.Sleep(11 * time.Second)
		if err := j.Check(t.Context()); err != nil {
			t.Errorf("later: %v", err)
		}
		fails()
		if d.full = nil; begin("b") != nil || j.Check(t.Context()) != nil {
			t.Errorf("after a write: %v", j.Check(t.Context()))
		}
	})
}
