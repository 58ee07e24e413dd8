package history_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/history"
)

// TestFollow: past events of a run are reported at once and new ones within about a second, each once. Follow ends with the run.
func TestFollow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newTestJournal(t)
		run := p.begin("alice", "")
		p.call(run, at(put, "0", `{}`), time.Millisecond, applied)
		var reports []string
		done := make(chan error)
		reader := history.NewReader(p.Journal, run.ID(), nil)
		go func() {
			done <- history.Follow(t.Context(), reader.Read, func(c *history.Call) error {
				reports = append(reports, c.At+" "+c.Status)
				return nil
			})
		}()
		time.Sleep(100 * time.Millisecond)
		want := []string{"0 ok"}
		check := func(more ...string) {
			t.Helper()
			time.Sleep(1100 * time.Millisecond)
			synctest.Wait()
			if want = append(want, more...); !slices.Equal(reports, want) {
				t.Fatalf("reports %q, want %q", reports, want)
			}
		}
		check()
		hanging := at(put, "1", `{"k":1}`)
		run.Prepare(&hanging)
		if err := hanging.Begin(); err != nil {
			t.Fatal(err)
		}
		check("1 running")
		if err := hanging.End(&refused); err != nil {
			t.Fatal(err)
		}
		check("1 failed")
		check()
		p.failed(run, fault.FunctionFailed, 1)
		if err := <-done; err != nil || !slices.Equal(reports, want) {
			t.Errorf("Follow returns %v, reports %q, want %q", err, reports, want)
		}
	})
}

// TestFollowRuns: runs are reported up to the limit, and each again when its status changes, until an interrupt.
func TestFollowRuns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newTestJournal(t)
		begin := func(name string) *journal.Run {
			time.Sleep(time.Millisecond)
			run := p.begin("alice", name)
			p.call(run, put, 0, applied)
			return run
		}
		p.failed(begin("old"), fault.Timeout, 1)
		begin("ended").Answered(1, 1)
		stillRunning := begin("goes on")
		ctx, cancel := context.WithCancel(t.Context())
		var reports []string
		done := make(chan error)
		go func() {
			done <- history.FollowRuns(ctx, p.Journal, &journal.Filter{Limit: 2}, func(r *history.Run) error {
				reports = append(reports, fmt.Sprintf("%s: %s", r.Chain, r.Status))
				return nil
			})
		}()
		time.Sleep(2 * time.Second)
		p.failed(stillRunning, fault.Timeout, 1)
		for i := range 3 {
			begin(fmt.Sprint(i)).Answered(1, 1)
		}
		time.Sleep(3 * time.Second)
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Follow after cancel: got error %v, want %v", err, context.Canceled)
		}
		want := []string{"ended: ok", "goes on: running", "goes on: failed", "0: ok", "1: ok", "2: ok"}
		if !slices.Equal(reports, want) {
			t.Errorf("reports %q, want %q", reports, want)
		}
	})
}
