package chain_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
)

// slowDriver is a driver whose changes of state take a while, or whose locks look free.
type slowDriver struct {
	journal.Driver
	takes     time.Duration
	looksFree bool
}

func (d *slowDriver) Write(ctx context.Context, list []journal.Write) ([]bool, error) {
	if list[0].State != nil {
		time.Sleep(d.takes)
	}
	return d.Driver.Write(ctx, list)
}

func (d *slowDriver) States(ctx context.Context, f *journal.StateFilter) ([]journal.StateRow, error) {
	if d.looksFree {
		return nil, nil
	}
	return d.Driver.States(ctx, f)
}

// TestLockNotGot: a lock that another holds is busy, whatever ends the wait, and may be asked for again: nothing was sent. A caller who
// gives up is told just that.
func TestLockNotGot(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		request string
		cancel  bool
		want    fault.Code
	}{
		"at once":          {`{"key":"k","steps":[{"state.lock":{"name":"l"}}]}`, false, fault.Busy},
		"wait 0s":          {`{"key":"k","steps":[{"state.lock":{"name":"l","wait":"0s"}}]}`, false, fault.Busy},
		"wait":             {`{"key":"k","steps":[{"state.lock":{"name":"l","wait":"2s"}}]}`, false, fault.Busy},
		"the step's limit": {`{"key":"k","steps":[{"state.lock":{"name":"l","wait":"5s"},"timeoutMs":700}]}`, false, fault.Busy},
		"the chain's limit": {`{"key":"k","steps":[{"state.lock":{"name":"l","wait":"5s"}}],"budget":{"maxDurationMs":700}}`, false,
			fault.Busy},
		"the caller": {`{"key":"k","steps":[{"state.lock":{"name":"l","wait":"5s"}}]}`, true, fault.Cancelled},
	} {
		synctest.Test(t, func(t *testing.T) {
			memory := &journal.Memory{}
			stateProcess(t.Context(), t, memory, `{"steps":[{"state.lock":{"name":"l","ttl":"10s"}}]}`)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if test.cancel {
				time.AfterFunc(time.Second, cancel)
			}
			a := stateProcess(ctx, t, memory, test.request)
			got := gjson.ParseBytes(a.JSON)
			if got.Get("error.code").Str != string(test.want) || !got.Get("error.retryable").Bool() || got.Get("error.writes").Exists() ||
				strings.Contains(string(a.JSON), string(fault.SentUnknown)) {
				t.Errorf("%s: %s, want %s, retryable", name, a.JSON, test.want)
			}
			time.Sleep(10 * time.Second)
			if a = stateProcess(t.Context(), t, memory, test.request); !a.OK {
				t.Errorf("%s: sent again when the lock is free: %s", name, a.JSON)
			}
		})
	}
}

// TestLostRacesLeaveNothing: of the attempts at a lock that a call makes while it waits, only the last one is recorded.
func TestLostRacesLeaveNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		memory := &journal.Memory{}
		stateProcess(t.Context(), t, memory, `{"steps":[{"state.lock":{"name":"l","ttl":"2s"}}]}`)
		d := &slowDriver{Driver: memory, looksFree: true}
		for _, want := range []struct {
			wait string
			ok   bool
		}{{"1s", false}, {"3s", true}} {
			a := stateProcess(t.Context(), t, d, `{"key":"`+want.wait+`","steps":[{"state.list":{}},`+
				`{"state.lock":{"name":"l","wait":"`+want.wait+`"}},{"state.set":{"key":"k","value":1}}]}`)
			id, _, err := memory.Find(t.Context(), "", want.wait)
			if err != nil {
				t.Fatalf("%v: %s", err, a.JSON)
			}
			rec, err := memory.Load(t.Context(), id, 0, 0)
			must(t, err)
			writes := 1
			if want.ok {
				writes = 2
			}
			if a.OK != want.ok || rec.Row.Writes != writes || len(rec.Segments) > 4 {
				t.Errorf("wait %s: %s, with %d writes in %d segments, want %d", want.wait, a.JSON, rec.Row.Writes, len(rec.Segments), writes)
			}
			j, err := journal.New(memory, &journal.Options{Key: modelKey})
			must(t, err)
			if _, err := j.Read(t.Context(), id, nil); err != nil {
				t.Error(err)
			}
			must(t, j.Close())
		}
	})
}

// TestStateSlowCommit: a change that is made after its step was cut off has the outcome that the journal has.
func TestStateSlowCommit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		memory := &journal.Memory{}
		d := &slowDriver{Driver: memory, takes: time.Second}
		a := stateProcess(t.Context(), t, d, `{"key":"k","steps":[{"state.append":{"key":"list","value":1},"timeoutMs":200}]}`)
		if got := held(t, memory)["list"]; !a.OK || got != "[1]" {
			t.Errorf("%s; the list is %s", a.JSON, got)
		}
		a = stateProcess(t.Context(), t, d, `{"steps":[{"state.append":{"key":"list","value":2,"ifVersion":7},"timeoutMs":200}]}`)
		if strings.Contains(string(a.JSON), string(fault.SentUnknown)) || a.OK {
			t.Errorf("%s, want a failure that is known", a.JSON)
		}
	})
}
