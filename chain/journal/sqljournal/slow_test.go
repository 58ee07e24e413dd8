package sqljournal

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/sqldb"
)

// slowEngine is an engine whose database is slow to open.
type slowEngine struct{ opened int }

var errSlow = errors.New("slow")

func (e *slowEngine) open(ctx context.Context, _ string) (*database, error) {
	e.opened++
	select {
	case <-time.After(time.Minute):
		return nil, errSlow
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (e *slowEngine) explain(error) (string, sqldb.Effect) { return "It is slow.", sqldb.MustReopen }
func (e *slowEngine) isRetryable(error) bool               { return false }
func (e *slowEngine) close(*database, string)              {}

// TestSlow: a database that does not open blocks no caller for longer than the timeout, and is tried again after a second, not earlier. A
// caller that stops waiting does not count as a failure of the database.
func TestSlow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := &slowEngine{}
		d, err := newDriver(e, &Options{Timeout: 5 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		load := func(ctx context.Context) error { _, err := d.Load(ctx, "run_a", 0, 0); return err }
		leaving, cancel := context.WithCancel(t.Context())
		go func() { time.Sleep(time.Second); cancel() }()
		if err := load(leaving); !errors.Is(err, context.Canceled) || fault.CodeOf(err) == fault.Unavailable {
			t.Errorf("load of a caller that stops waiting: %v, want Canceled", err)
		}
		began, answers := time.Now(), make(chan error)
		for range 2 { // the second waits for the first
			go func() { answers <- load(t.Context()) }()
		}
		for range 2 {
			if err := <-answers; fault.CodeOf(err) != fault.Unavailable {
				t.Errorf("load of a slow database: %v, want unavailable", err)
			}
		}
		if took := time.Since(began); took != 5*time.Second || e.opened != 2 {
			t.Errorf("failed after %v and %d attempts to open, want 5s and 2", took, e.opened)
		}
		if err := load(t.Context()); fault.CodeOf(err) != fault.Unavailable || e.opened != 2 {
			t.Errorf("load before the retry: opened %d times, want 2; error %v", e.opened, err)
		}
		time.Sleep(reopenAfter)
		if err := load(t.Context()); fault.CodeOf(err) != fault.Unavailable || e.opened != 3 {
			t.Errorf("load after the retry delay: opened %d times, want 3; error %v", e.opened, err)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		if err := load(t.Context()); !errors.Is(err, errClosed) {
			t.Errorf("load after Close: %v, want %v", err, errClosed)
		}
	})
}
