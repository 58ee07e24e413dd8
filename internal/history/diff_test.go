package history_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/history"
)

// successfulRun returns the trace of a run that made these calls and ended ok.
func (p *testJournal) successfulRun(calls ...journal.Call) *history.Trace {
	p.Helper()
	run := p.begin("alice", fmt.Sprint(p.seen))
	p.seen++
	for _, c := range calls {
		e := read
		if c.Effect != "" {
			e = applied
		}
		p.call(run, c, 0, e)
	}
	run.Answered(1, 0)
	return p.trace(run.ID())
}

func (p *testJournal) trace(id string) *history.Trace {
	p.Helper()
	timeline, err := history.Of(p.Context(), p.Journal, id, nil)
	if err != nil {
		p.Fatal(err)
	}
	return timeline.Trace()
}

func at(c journal.Call, position, args string) journal.Call {
	c.StepPath, c.Args = position, []byte(args)
	return c
}

// pairs returns the calls of a comparison in short: 0=1 for equal calls, 0~1(…) for others.
func pairs(d *history.Diff) string {
	var list []string
	for _, p := range d.Calls {
		switch {
		case p.B == nil:
			list = append(list, "-"+p.A.At)
		case p.A == nil:
			list = append(list, "+"+p.B.At)
		case len(p.Differs) > 0:
			list = append(list, fmt.Sprintf("%s~%s%v", p.A.At, p.B.At, p.Differs))
		default:
			list = append(list, p.A.At+"="+p.B.At)
		}
	}
	return strings.Join(list, " ")
}

func TestCompareRuns(t *testing.T) {
	t.Parallel()
	p := newTestJournal(t)
	first := p.successfulRun(at(get, "0", `{"k":1}`), at(put, "1[10]", `{"k":3}`), at(put, "1[9]", `{"k":2}`), at(put, "2", `{"k":4}`))
	for name, test := range map[string]struct {
		calls []journal.Call
		want  string
	}{
		"the same":           {[]journal.Call{at(get, "0", `{"k":1.0}`), at(put, "1[9]", `{"k":2}`), at(put, "1[10]", `{"k":3}`), at(put, "2", `{"k":4}`)}, "0=0 1[9]=1[9] 1[10]=1[10] 2=2"},
		"one more step":      {[]journal.Call{at(get, "0", `{"k":0}`), at(get, "1", `{"k":1}`), at(put, "2[9]", `{"k":2}`), at(put, "2[10]", `{"k":3}`), at(put, "3", `{"k":4}`)}, "+0 0=1 1[9]=2[9] 1[10]=2[10] 2=3"},
		"other arguments":    {[]journal.Call{at(get, "0", `{"k":1}`), at(put, "1[9]", `{"k":2}`), at(put, "1[10]", `{"k":5}`), at(put, "2", `{"k":4}`)}, "0=0 1[9]=1[9] 1[10]~1[10][args] 2=2"},
		"one element fewer":  {[]journal.Call{at(get, "0", `{"k":1}`), at(put, "1[0]", `{"k":3}`), at(put, "2", `{"k":4}`)}, "0=0 -1[9] 1[10]=1[0] 2=2"},
		"nothing in common":  {[]journal.Call{{StepPath: "0", Function: "store.list"}}, "+0 -0 -1[9] -1[10] -2"},
		"no calls":           {nil, "-0 -1[9] -1[10] -2"},
		"one call twice":     {[]journal.Call{at(get, "0", `{"k":1}`), at(get, "1", `{"k":1}`), at(put, "2", `{"k":4}`)}, "0=0 +1 -1[9] -1[10] 2=2"},
		"another function":   {[]journal.Call{at(get, "0", `{"k":1}`), at(get, "1", `{"k":4}`)}, "0=0 +1 -1[9] -1[10] -2"},
		"the order of steps": {[]journal.Call{at(put, "0", `{"k":4}`), at(get, "1", `{"k":1}`), at(put, "2[0]", `{"k":2}`), at(put, "2[1]", `{"k":3}`)}, "0=1 1[9]=2[0] 1[10]=2[1] 2=0"},
	} {
		d := history.Compare(first, p.successfulRun(test.calls...))
		if got := pairs(d); got != test.want {
			t.Errorf("%s: got %s\nwant %s", name, got, test.want)
		}
		if same := name == "the same" || name == "the order of steps"; d.Equal != same {
			t.Errorf("%s: Equal is %t, want %t", name, d.Equal, same)
		}
	}
}

// TestCompareOutcomes: calls with the same arguments differ if they ended differently, and so do runs.
func TestCompareOutcomes(t *testing.T) {
	t.Parallel()
	p := newTestJournal(t)
	record := func(name string, e journal.Event, end func(*journal.Run)) *history.Trace {
		run := p.begin("alice", name)
		p.call(run, put, 0, e)
		end(run)
		return p.trace(run.ID())
	}
	succeed := func(run *journal.Run) { run.Answered(1, 0) }
	ok := record("ok", applied, succeed)
	failed := record("bad", refused, func(run *journal.Run) { p.failed(run, fault.FunctionFailed, 1) })
	longer := record("longer", journal.Event{Outcome: fault.Applied, Result: []byte(`100`)}, succeed)
	if got, want := pairs(history.Compare(ok, failed)), "1[3].0~1[3].0[status outcome code bytes]"; got != want {
		t.Errorf("compared to a failure: %s, want %s", got, want)
	}
	if got, want := pairs(history.Compare(ok, longer)), "1[3].0~1[3].0[bytes]"; got != want {
		t.Errorf("compared to a longer result: %s, want %s", got, want)
	}
	stopped := record("stopped", applied, func(run *journal.Run) { p.failed(run, fault.Cancelled, 1) })
	if d := history.Compare(ok, stopped); d.Equal || pairs(d) != "1[3].0=1[3].0" {
		t.Errorf("compared to a cancelled run: got %s, equal %t, want 1[3].0=1[3].0 and not equal", pairs(d), d.Equal)
	}
}

func TestCompareRecordings(t *testing.T) {
	t.Parallel()
	p := newTestJournal(t)
	recording := func(lines ...string) *history.Trace {
		path := filepath.Join(t.TempDir(), "r.jsonl")
		if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
			t.Fatal(err)
		}
		trace, err := history.Recording(path, &history.RecordingOptions{Journal: p.Journal})
		if err != nil {
			t.Fatal(err)
		}
		return trace
	}
	const one = `{"fn":"store.get","args":{"k":1},"result":"abc"}`
	a := recording(one, `{"fn":"store.put","args":{"k":2},"result":{"id":7,"at":[1,2]}}`,
		`{"fn":"store.put","args":{},"error":{"code":"timeout","message":"too late"}}`)
	b := recording(`{"fn":"store.put","args":{},"result":1}`, one, `{"fn":"store.put","args":{"k":2},"result":{"at":[1,3],"id":7.0}}`)
	d := history.Compare(a, b)
	if got, want := pairs(d), "line 1=line 2 line 2~line 3[result] line 3~line 1[status code bytes]"; got != want {
		t.Errorf("recordings: %s, want %s", got, want)
	}
	if got := fmt.Sprintf("%s", d.Calls[1].Result); got != `[{/at/1 2 3}]` {
		t.Errorf("differences of the results: got %s, want [{/at/1 2 3}]", got)
	}
	run := p.successfulRun(at(get, "0", `{"k":1.0}`), at(put, "1", `{"k":2}`), at(put, "2", `{"k":9}`))
	d = history.Compare(run, b)
	if got, want := pairs(d), "0=line 2 1~line 3[bytes] 2~line 1[args]"; got != want {
		t.Errorf("run and recording: %s, want %s", got, want)
	}
	secrets := recording(`{"salt":"abc"}`, `{"fn":"store.get","args":{"k":{"secret":"AAAAAAAAAAAAAAAAAAAAAAAA"}},"result":"abc"}`)
	otherSecrets := recording(`{"salt":"def"}`, `{"fn":"store.get","args":{"k":{"secret":"BBBBBBBBBBBBBBBBBBBBBBBB"}},"result":"abc"}`)
	for _, other := range []*history.Trace{otherSecrets, p.successfulRun(at(get, "0", `{"k":"hunter2"}`))} {
		if d := history.Compare(secrets, other); !d.Equal {
			t.Errorf("calls with secrets: got differences %s, want none", pairs(d))
		}
	}
}
