package exposure_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/internal/exposure"
)

// callers returns records of callers, as one replica has them; nil: there is no journal.
func callers(j *journal.Journal) *exposure.Callers {
	return &exposure.Callers{Journal: func() *journal.Journal { return j }, Remember: time.Hour}
}

func memory(t *testing.T) *journal.Journal {
	t.Helper()
	j, err := journal.New(&journal.Memory{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// show shows a caller something, and returns whether a text that it then sends has a label.
func show(t *testing.T, c *exposure.Callers, id string, names ...string) string {
	t.Helper()
	all := []string{"a", "b"}
	rules := exposure.Rules{Model: all, All: all}
	record, keep := c.Of(t.Context(), id, all)
	open := rules.Open(t.Context(), id, record, keep, nil)
	open.Shown(names)
	return labels(record, `"a text"`)
}

// TestCallers: what a caller without a session was shown is known to each replica, until it has not been used for some time.
func TestCallers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		j := memory(t)
		defer j.Close()
		first, second := callers(j), callers(j)
		if got := show(t, first, "ann", "a", "unnamed"); got != "a" {
			t.Errorf("shown a, a text has %q", got)
		}
		if got := show(t, second, "ann"); got != "a" {
			t.Errorf("another replica: a text has %q, want a", got)
		}
		if got := show(t, second, "bob"); got != "" {
			t.Errorf("another caller's text has %q", got)
		}
		time.Sleep(50 * time.Minute)
		show(t, second, "ann", "b") // its last use
		time.Sleep(50 * time.Minute)
		if got := show(t, first, "ann"); got != "a b" {
			t.Errorf("50 minutes after its last use a text has %q, want a b", got)
		}
		time.Sleep(2 * time.Hour)
		if got := show(t, first, "ann"); got != "" {
			t.Errorf("after two hours a text has %q", got)
		}
	})
}

// TestCallersAlone: without a journal the process alone knows, through a reload, and forgets in time.
func TestCallersAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		before := callers(nil)
		show(t, before, "ann", "a")
		after := callers(nil)
		after.Take(before)
		if got := show(t, after, "ann"); got != "a" {
			t.Errorf("after a reload a text has %q, want a", got)
		}
		time.Sleep(2 * time.Hour)
		if got := show(t, after, "ann"); got != "" {
			t.Errorf("after two hours a text has %q", got)
		}
	})
}

// TestCallersUnread: what cannot be read counts as shown.
func TestCallersUnread(t *testing.T) {
	t.Parallel()
	j := memory(t)
	c := callers(j)
	record, _ := c.Of(t.Context(), "ann", []string{"a"})
	record.Send([]byte(`["a text"]`), 1)
	if got := labels(record, `"a text"`); got != "" {
		t.Fatalf("at first a text has %q", got)
	}
	broken, err := journal.New(failing{&journal.Memory{}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	record, _ = callers(broken).Of(t.Context(), "ann", []string{"a"})
	if got := labels(record, `"a text"`); got != "a" {
		t.Errorf("a text has %q, want a", got)
	}
}

// failing is a driver whose state cannot be read.
type failing struct{ journal.Driver }

func (failing) States(context.Context, *journal.StateFilter) ([]journal.StateRow, error) {
	return nil, errors.New("no connection")
}

// TestCallersUnkept: what the database could not be told of counts as shown all the same, and it is told as soon as it can be.
func TestCallersUnkept(t *testing.T) {
	t.Parallel()
	driver := &forgetting{Driver: &journal.Memory{}, failing: true}
	j, err := journal.New(driver, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	c := callers(j)
	for range 3 {
		if got := show(t, c, "ann", "a"); got != "a" {
			t.Errorf("while the database does not keep it, a text has %q, want a", got)
		}
	}
	if got := show(t, callers(j), "ann"); got != "" {
		t.Errorf("another replica knows %q, which nothing has told it", got)
	}
	driver.failing = false
	show(t, c, "ann")
	if got := show(t, callers(j), "ann"); got != "a" {
		t.Errorf("once the database keeps it, another replica's text has %q, want a", got)
	}
}

// forgetting is a driver that may fail to keep names.
type forgetting struct {
	journal.Driver
	failing bool
}

func (f *forgetting) MarkState(ctx context.Context, key journal.StateKey, ttl time.Duration) error {
	if f.failing {
		return errors.New("no connection")
	}
	return f.Driver.MarkState(ctx, key, ttl)
}
