package chain_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps/source/state"
)

// stateProcess runs requests in a process of its own over a journal's database.
func stateProcess(ctx context.Context, t *testing.T, d journal.Driver, requests ...string) (last *chain.Answer) {
	t.Helper()
	j, err := journal.New(d, &journal.Options{Key: modelKey})
	must(t, err)
	defer j.Close()
	source := state.New(&state.Options{Journal: func() *journal.Journal { return j }})
	for _, request := range requests {
		last = engineOf(t, source.Functions(), chain.Options{Journal: j}, false).Run(ctx, []byte(request), nil)
	}
	return last
}

// held returns what the keys of the default space hold, as JSON.
func held(t *testing.T, d journal.Driver) map[string]string {
	t.Helper()
	j, err := journal.New(d, &journal.Options{Key: modelKey})
	must(t, err)
	defer j.Close()
	values, err := j.States(t.Context(), &journal.StateFilter{Owner: "caller ", Values: true})
	must(t, err)
	found := map[string]string{}
	for _, v := range values {
		found[v.Name] = string(v.Value)
	}
	return found
}

// changesOfState are the steps of a chain, each with its key, and what that holds before and after; "": nothing.
var changesOfState = []struct{ step, key, before, after string }{
	{`{"state.set":{"key":"made","value":{"a":1.10}}}`, "made", "", `{"a":1.10}`},
	{`{"state.set":{"key":"replaced","value":2}}`, "replaced", "1", "2"},
	{`{"state.append":{"key":"begun","value":1}}`, "begun", "", "[1]"},
	{`{"state.append":{"key":"list","value":"b"}}`, "list", `["a"]`, `["a","b"]`},
	{`{"state.append":{"key":"empty","value":"b"}}`, "empty", `[]`, `["b"]`},
	{`{"state.delete":{"key":"deleted"}}`, "deleted", "1", ""},
	{`{"state.delete":{"key":"taken","value":2}}`, "taken", "[1,2]", "[1]"},
	{`{"state.delete":{"key":"none"}}`, "none", "", ""},
	{`{"state.set":{"key":"twice","value":2}},{"state.set":{"key":"twice","value":3}}`, "twice", "1", "3"},
	{`{"state.set":{"key":"gone","value":2}},{"state.delete":{"key":"gone"}}`, "gone", "1", ""},
	{`{"state.delete":{"key":"back"}},{"state.set":{"key":"back","value":2}}`, "back", "1", "2"},
	{`{"state.set":{"key":"grown","value":[1]}},{"state.append":{"key":"grown","value":2}}`, "grown", "", "[1,2]"},
	{`{"state.append":{"key":"each","value":"$item"},"forEach":"[1, 1]"}`, "each", "[0]", "[0,1,1]"},
}

const stateBefore = `{"steps":[{"state.set":{"key":"replaced","value":1}},{"state.set":{"key":"list","value":["a"]}},` +
	`{"state.set":{"key":"empty","value":[]}},{"state.set":{"key":"deleted","value":1}},{"state.set":{"key":"taken","value":[1,2]}},` +
	`{"state.set":{"key":"twice","value":1}},{"state.set":{"key":"gone","value":1}},{"state.set":{"key":"back","value":1}},` +
	`{"state.set":{"key":"each","value":[0]}}]}`

// TestStateKilledAtEachEvent: a chain that changes state is killed at each of its writes to the journal, confirmed or not. Each change is
// then made or not, as the journal says, and none is unknown: another process undoes them all, or makes those that are left, each once.
func TestStateKilledAtEachEvent(t *testing.T) {
	t.Parallel()
	list := ""
	for _, c := range changesOfState {
		list += "," + c.step
	}
	kills := 0
	for left, killed := 1, true; killed; left++ {
		for variant := range 4 {
			undo, lastKept := variant&1 != 0, variant&2 != 0
			memory := &journal.Memory{}
			stateProcess(t.Context(), t, memory, stateBefore)
			ctx, kill := context.WithCancel(t.Context())
			driver := &killableDriver{Driver: memory, left: left, lastKept: lastKept, kill: kill}
			stateProcess(ctx, t, driver, `{"key":"changes","steps":[`+list[1:]+`]}`)
			kill()
			killed = driver.left == 0
			run, _, _ := memory.Find(t.Context(), "", "changes")
			what := fmt.Sprintf("killed at write %d (kept %t, undo %t)", left, lastKept, undo)
			if run != "" {
				request := `{"resume":"` + run + `"}`
				if undo {
					request = `{"resume":"` + run + `","undo":true}`
				}
				if a := stateProcess(t.Context(), t, memory, request); !a.OK || len(gjson.GetBytes(a.JSON, "result.left").Array()) > 0 {
					t.Errorf("%s: %s", what, a.JSON)
				}
			}
			found := held(t, memory)
			for _, c := range changesOfState {
				want := c.after
				if undo || run == "" {
					want = c.before
				}
				if found[c.key] != want {
					t.Errorf("%s: %s holds %s, want %s", what, c.key, found[c.key], want)
				}
			}
		}
		if killed {
			kills++
		}
	}
	if kills < len(changesOfState) {
		t.Errorf("%d kills, want one at each event", kills)
	}
}

// TestStateUndoLeavesLaterChanges: an undo gives nothing back that somebody has changed since, and tells it first.
func TestStateUndoLeavesLaterChanges(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ step, later, want string }{
		"set":               {`{"state.set":{"key":"replaced","value":2}}`, `{"state.set":{"key":"replaced","value":2}}`, "replaced"},
		"set, then deleted": {`{"state.set":{"key":"replaced","value":2}}`, `{"state.delete":{"key":"replaced"}}`, "replaced"},
		"deleted":           {`{"state.delete":{"key":"deleted"}}`, `{"state.set":{"key":"deleted","value":1}}`, "deleted"},
		"append":            {`{"state.append":{"key":"list","value":"b"}}`, `{"state.append":{"key":"list","value":"c"}}`, "list"},
		"another key":       {`{"state.set":{"key":"replaced","value":2}}`, `{"state.set":{"key":"other","value":1}}`, ""},
		"element before":    {`{"state.append":{"key":"list","value":"b"}}`, `{"state.set":{"key":"list","value":["x","b"]}}`, "list"},
	} {
		memory := &journal.Memory{}
		stateProcess(t.Context(), t, memory, stateBefore)
		failing := stateProcess(t.Context(), t, memory, `{"key":"k","steps":[`+test.step+`,{"state.get":{"key":"missing"}}]}`)
		stateProcess(t.Context(), t, memory, `{"steps":[`+test.later+`]}`)
		before := held(t, memory)
		a := stateProcess(t.Context(), t, memory, `{"resume":`+gjson.GetBytes(failing.JSON, "resume").Raw+`,"undo":true}`)
		stays := gjson.GetBytes(a.JSON, "result.left.0.message").Str
		if test.want != "" && (!strings.Contains(stays, test.want) || fmt.Sprint(held(t, memory)) != fmt.Sprint(before)) ||
			test.want == "" && stays != "" {
			t.Errorf("%s: %s\nheld %v, before %v", name, a.JSON, held(t, memory), before)
		}
	}
}

// TestStateFailures: what a journal that cannot be written does not keep was not changed, and the answer says so. A run that another
// process has taken over changes nothing.
func TestStateFailures(t *testing.T) {
	t.Parallel()
	memory := &journal.Memory{}
	a := stateProcess(t.Context(), t, &killableDriver{Driver: memory, kill: func() {}}, `{"steps":[{"state.set":{"key":"k","value":1}}]}`)
	writes := gjson.GetBytes(a.JSON, "writes.0.outcome").Str
	if a.Error == nil || a.Error.Code != fault.Unavailable || writes != string(fault.NotSent) || len(held(t, memory)) > 0 {
		t.Errorf("%s; held %v", a.JSON, held(t, memory))
	}
	a = stateProcess(t.Context(), t, memory, `{"steps":[{"state.set":{"key":"k","value":1}},{"state.set":{"key":"k","value":1,"ifVersion":7}}]}`)
	if a.Error == nil || a.Error.Code != fault.Busy || !strings.Contains(a.Error.Message, "is 1, not 7") ||
		!strings.Contains(string(a.JSON), `{"step":1,"fn":"state.set","outcome":"failed"}`) {
		t.Errorf("%s, want busy with the version, and a second write that failed", a.JSON)
	}
}

// lostDriver is a driver whose database is lost at a write, and can then not be asked.
type lostDriver struct{ *killableDriver }

func (d lostDriver) Load(ctx context.Context, id string, lease int64, first int) (*journal.Record, error) {
	if d.left == 0 {
		return nil, errDead
	}
	return d.killableDriver.Load(ctx, id, lease, first)
}

// TestStateDatabaseLost: if the database is lost at the commit of a change, the answer does not know what became of it, and a resume does.
func TestStateDatabaseLost(t *testing.T) {
	t.Parallel()
	for kept, want := range map[bool]fault.Outcome{false: fault.NotSent, true: fault.SentUnknown} { // what was not begun is known
		memory := &journal.Memory{}
		d := lostDriver{&killableDriver{Driver: memory, left: 2, lastKept: kept, kill: func() {}}}
		const request = `{"key":"k","steps":[{"state.append":{"key":"list","value":1}}]}`
		a := stateProcess(t.Context(), t, d, request)
		if got := gjson.GetBytes(a.JSON, "writes.0.outcome").Str; a.OK || got != string(want) {
			t.Errorf("kept %t: %s, want %s", kept, a.JSON, want)
		}
		if a = stateProcess(t.Context(), t, memory, request); !a.OK || held(t, memory)["list"] != "[1]" {
			t.Errorf("kept %t: the resume answers %s, and the list is %s, want one element", kept, a.JSON, held(t, memory)["list"])
		}
	}
}

// TestLockAfterResume: a resume renews a lock that still lives, takes one that has ended again, and is busy where another holds it. Its undo
// ends it.
func TestLockAfterResume(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		memory := &journal.Memory{}
		run := func(request string) gjson.Result {
			return gjson.ParseBytes(stateProcess(t.Context(), t, memory, request).JSON)
		}
		const steps = `"steps":[{"state.lock":{"name":"l","ttl":"60s"},"id":"lock"},{"state.get":{"key":"k"}}],"return":"$lock"`
		resume := `{"resume":` + run(`{"key":"k",`+steps+`}`).Get("resume").Raw + `,"return":"$lock"`
		first := run(resume + `}`).Get("result")
		time.Sleep(50 * time.Second)
		again := run(resume + `}`).Get("result")
		if again.Get("token").Str != first.Get("token").Str || again.Get("fence").Int() != first.Get("fence").Int() ||
			again.Get("until").Str <= first.Get("until").Str {
			t.Errorf("the resume has %s, want %s renewed", again, first)
		}
		time.Sleep(61 * time.Second)
		later := run(resume + `}`).Get("result")
		if later.Get("fence").Int() <= first.Get("fence").Int() {
			t.Errorf("the resume has %s, want another holder than %s", later, first)
		}
		time.Sleep(61 * time.Second)
		other := run(`{"steps":[{"state.lock":{"name":"l"}}]}`)
		if got := run(resume + `}`); !other.Get("ok").Bool() || got.Get("error.code").Str != string(fault.Busy) {
			t.Errorf("another holds it: %s; the resume answers %s", other, got)
		}
		time.Sleep(61 * time.Second)
		run(resume + `}`)
		if got := run(resume + `,"undo":true}`); !got.Get("ok").Bool() {
			t.Errorf("the undo: %s", got)
		}
		if got := run(`{"steps":[{"state.lock":{"name":"l"}}]}`); !got.Get("ok").Bool() {
			t.Errorf("after the undo: %s", got)
		}
	})
}
