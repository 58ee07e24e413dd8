package journal_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
)

// otherWriter is a driver with a version that a test changes, as others' writes do.
type otherWriter struct {
	*journal.Memory
	version, asked atomic.Int64
	fails          atomic.Bool
}

func (o *otherWriter) Version(context.Context) (string, time.Duration, error) {
	o.asked.Add(1)
	if o.fails.Load() {
		return "", 250 * time.Millisecond, context.DeadlineExceeded
	}
	return fmt.Sprint(o.version.Load()), 250 * time.Millisecond, nil
}

func begin(j *journal.Journal) *journal.Run {
	return j.Begin(&journal.Start{Caller: "ann", Text: []byte("{}"), Steps: 9, Hash: func() string { return "" }})
}

func read(t *testing.T, run *journal.Run, k int) {
	t.Helper()
	c := &journal.Call{StepPath: "0", Function: "f.get", Args: fmt.Append(nil, k)}
	run.Prepare(c)
	if err := c.Begin(); err != nil {
		t.Fatal(err)
	}
	if err := c.End(&journal.Event{Result: []byte("1")}); err != nil {
		t.Fatal(err)
	}
}

func newJournal(t *testing.T, d journal.Driver) *journal.Journal {
	t.Helper()
	j, err := journal.New(d, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	return j
}

// TestSubscribe: while somebody listens, a run under way that only reads is recorded within 300 ms, and told; without, at its end. The end
// of the context ends the channel.
func TestSubscribe(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := &journal.Memory{}
		j := newJournal(t, m)
		silent := begin(j)
		read(t, silent, 1)
		time.Sleep(time.Second)
		if _, err := m.Load(t.Context(), silent.ID(), 0, 0); err == nil {
			t.Error("without a listener a read was written before the end of its run")
		}
		ctx, cancel := context.WithCancel(t.Context())
		changes := j.Subscribe(ctx)
		run := begin(j)
		for n := 1; n <= 3; n++ {
			ended := time.Now()
			read(t, run, n)
			if c := <-changes; c.Run != run.ID() || time.Since(ended) > 300*time.Millisecond {
				t.Errorf("told %+v after %v", c, time.Since(ended))
			}
			past, err := j.Read(t.Context(), run.ID(), nil)
			if err != nil || len(past.Calls()) != n || past.Row.Status != journal.Running {
				t.Fatalf("after %d reads the journal has %+v, %v", n, past, err)
			}
		}
		run.Answered(1, 1)
		if c := <-changes; c.Run != run.ID() {
			t.Errorf("told %+v of the end of the run", c)
		}
		if past, err := j.Read(t.Context(), run.ID(), nil); err != nil || past.Row.Status != journal.OK || len(past.Calls()) != 3 {
			t.Errorf("at its end the run is %+v, %v", past, err)
		}
		cancel()
		if c, open := <-changes; open {
			t.Errorf("told %+v after the end", c)
		}
		silent.Answered(1, 1)
	})
}

// TestSlowSubscriber: who does not receive blocks no run, and is told of each run once; of more than it can be told of, of any.
func TestSlowSubscriber(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		j := newJournal(t, &journal.Memory{})
		changes, other := j.Subscribe(t.Context()), j.Subscribe(t.Context())
		end := func(n int) (ids []string) {
			for range n {
				run := begin(j)
				read(t, run, 1)
				if err := run.EndUnfinished(journal.Failed, fault.Timeout, "late"); err != nil {
					t.Fatal(err)
				}
				ids = append(ids, run.ID())
			}
			return ids
		}
		told := func(from <-chan journal.Change) (ids []string) {
			for {
				select {
				case c := <-from:
					ids = append(ids, c.Run)
				case <-time.After(time.Second):
					slices.Sort(ids)
					return slices.Compact(ids)
				}
			}
		}
		few := end(5)
		slices.Sort(few)
		if got := told(changes); !slices.Equal(got, few) {
			t.Errorf("told %q, want each of %q", got, few)
		}
		end(200)
		for _, from := range []<-chan journal.Change{changes, other} {
			if got := told(from); !slices.Contains(got, "") || len(got) > 100 { // some were taken before there were too many
				t.Errorf("told of %d runs %q, want of any runs", len(got), got)
			}
		}
		j.Close()
		for _, from := range []<-chan journal.Change{changes, other} {
			if c, open := <-from; open {
				t.Errorf("told %+v after Close", c)
			}
		}
	})
}

// TestOthersChanges: one poll tells all subscribers of what others write, and only while there are any. A driver that fails is asked again.
func TestOthersChanges(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &otherWriter{Memory: &journal.Memory{}}
		j := newJournal(t, d)
		time.Sleep(time.Minute)
		if asked := d.asked.Load(); asked > 0 {
			t.Errorf("asked %d times although nobody listens", asked)
		}
		ctx, cancel := context.WithCancel(t.Context())
		first, second := j.Subscribe(ctx), j.Subscribe(ctx)
		both := func() {
			t.Helper()
			for _, changes := range []<-chan journal.Change{first, second} {
				if c := <-changes; c.Run != "" {
					t.Errorf("told %+v, want any run", c)
				}
			}
		}
		quiet := func(d time.Duration) {
			t.Helper()
			select {
			case c := <-first:
				t.Errorf("told %+v although nothing has changed", c)
			case <-time.After(d):
			}
		}
		both()
		quiet(10 * time.Second)
		asked := d.asked.Load()
		quiet(10 * time.Second)
		if n := d.asked.Load() - asked; n > 41 || n < 39 {
			t.Errorf("asked %d times in 10 s, want each 250 ms", n)
		}
		changed := time.Now()
		d.version.Add(1)
		if both(); time.Since(changed) > 250*time.Millisecond {
			t.Errorf("told after %v", time.Since(changed))
		}
		d.fails.Store(true)
		quiet(10 * time.Second)
		d.fails.Store(false)
		both() // something may have changed meanwhile
		quiet(time.Second)
		cancel()
		synctest.Wait()
		asked = d.asked.Load()
		time.Sleep(time.Minute)
		if n := d.asked.Load() - asked; n > 0 {
			t.Errorf("asked %d times after the last has left", n)
		}
		again, stop := context.WithCancel(t.Context())
		defer stop()
		if c := <-j.Subscribe(again); c.Run != "" {
			t.Errorf("a later subscriber is told %+v, want any run", c)
		}
	})
}

// failingDriver is a driver whose writes fail while it is told so.
type failingDriver struct {
	*journal.Memory
	fails atomic.Bool
}

func (f *failingDriver) Write(ctx context.Context, list []journal.Write) ([]bool, error) {
	if f.fails.Load() {
		return nil, errors.New("the disk is full")
	}
	return f.Memory.Write(ctx, list)
}

// TestFailsWhileSubscribed: a run that reads while somebody listens and the journal cannot be written is recorded whole once it can,
// whether it had begun to be written before, and may go on to write.
func TestFailsWhileSubscribed(t *testing.T) {
	t.Parallel()
	for _, before := range []int{0, 1} {
		synctest.Test(t, func(t *testing.T) {
			d := &failingDriver{Memory: &journal.Memory{}}
			j := newJournal(t, d)
			_ = j.Subscribe(t.Context())
			run := begin(j)
			reads := 0
			look := func() {
				read(t, run, reads)
				reads++
				time.Sleep(time.Second)
			}
			for range before {
				look()
			}
			d.fails.Store(true)
			look()
			look()
			d.fails.Store(false)
			look()
			write := &journal.Call{StepPath: "0", Function: "f.put", Effect: "write", Args: []byte("1")}
			run.Prepare(write)
			if err := write.Begin(); err != nil {
				t.Fatalf("after %d reads before the failure, a call must not be made: %v", before, err)
			}
			if err := write.End(&journal.Event{Outcome: fault.Applied}); err != nil {
				t.Fatal(err)
			}
			run.Answered(1, 1)
			time.Sleep(time.Minute)
			past, err := j.Read(t.Context(), run.ID(), nil)
			if err != nil || past.Row.Status != journal.OK || len(past.Calls()) != reads+1 || string(past.Chain) != "{}" {
				t.Errorf("after %d reads before the failure: %+v, %v; want all calls", before, past, err)
			}
		})
	}
}

// TestRefresh: however a run goes on, a past that is refreshed is the one that is read.
func TestRefresh(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		m := &journal.Memory{}
		j, err := journal.New(m, nil)
		if err != nil {
			rt.Fatal(err)
		}
		defer j.Close()
		run := j.Begin(&journal.Start{Caller: "ann", Text: []byte("{}"), Writes: true, Lookup: true, Hash: func() string { return "" }})
		if err := run.Claim(); err != nil {
			rt.Fatal(err)
		}
		past, err := j.Read(t.Context(), run.ID(), nil)
		if err != nil {
			rt.Fatal(err)
		}
		var late []*journal.Call // calls under way whose run another process has taken over
		for n := range rapid.IntRange(1, 12).Draw(rt, "changes") {
			c := &journal.Call{StepPath: fmt.Sprint(n), Function: "f.put", Effect: "write", Args: fmt.Append(nil, n)}
			switch rapid.IntRange(0, 4).Draw(rt, "change") {
			case 0:
				run.Prepare(c)
				_ = c.Begin()
				_ = c.End(&journal.Event{Outcome: fault.Applied, Result: []byte("1")})
			case 1:
				run.Prepare(c)
				if c.Begin() == nil {
					late = append(late, c)
				}
			case 2:
				if err := run.EndUnfinished(journal.Failed, fault.Timeout, "late"); err != nil {
					rt.Fatal(err)
				}
				taken, err := j.Acquire(t.Context(), run.ID(), nil)
				if err != nil {
					rt.Fatal(err)
				}
				run = j.Resume(taken, nil)
			case 3:
				if len(late) > 0 {
					_ = late[0].End(&journal.Event{Outcome: fault.Failed, Code: fault.FunctionFailed})
					late = late[1:]
				}
			case 4:
				run.Decide(journal.Denied, []string{"a call"}, "ann", "no")
			}
			if rapid.Bool().Draw(rt, "looks") {
				continue
			}
			if err := j.Refresh(t.Context(), past); err != nil {
				rt.Fatal(err)
			}
			want, err := j.Read(t.Context(), run.ID(), nil)
			if err != nil {
				rt.Fatal(err)
			}
			if !reflect.DeepEqual(past, want) {
				rt.Fatalf("refreshed\n%+v\nread\n%+v", past, want)
			}
		}
	})
}
