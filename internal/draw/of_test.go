package draw_test

import (
	"fmt"
	"testing"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/draw"
	"github.com/onecall-mcp/onecall/internal/history"
)

// TestDecided: calls that were denied, or approved and not made, are elements that were not done.
func TestDecided(t *testing.T) {
	t.Parallel()
	made := call("1[0]", "fs.cat", 1, 1)
	for name, test := range map[string]struct {
		list    []history.Call
		decided map[string]bool
		step    int
		want    string // status, code, done, elements
	}{
		"some denied":         {[]history.Call{made}, map[string]bool{"1[1]": true, "1[2]": false}, 1, "failed denied 1/3"},
		"denied, none made":   {nil, map[string]bool{"4": true}, 4, "failed denied 0/0"},
		"approved, none made": {nil, map[string]bool{"1[0]": false}, 1, "not run  0/1"},
	} {
		s := draw.OfRun("", plan, &history.Timeline{List: test.list, Decided: test.decided}, nil).Steps[test.step]
		if got := fmt.Sprintf("%s %s %d/%d", s.Status, s.Code, s.Done, s.Elements); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

// TestStatuses: what became of a step follows from the last call at each path, and from resumes that were not refused.
func TestStatuses(t *testing.T) {
	t.Parallel()
	state := func(at, status string, outcome fault.Outcome) history.Call {
		c := call(at, "fs.cat", 1, 1)
		c.Status, c.Outcome = status, outcome
		return c
	}
	ok, failed := state("1[0]", "ok", ""), state("1[1]", "failed", "")
	resumed, refused := history.Call{Event: history.Resumed}, history.Call{Event: history.Refused}
	undo := state("4", "ok", fault.Applied)
	undo.Undoes = true
	for name, test := range map[string]struct {
		list    []history.Call
		waiting []string
		step    int
		want    string // status, outcome, done, elements, calls
	}{
		"none":                   {nil, nil, 1, "not run  0/0 0"},
		"an expression":          {[]history.Call{ok}, nil, 2, "  0/0 0"},
		"ok":                     {[]history.Call{ok, state("1[1]", "ok", "")}, nil, 1, "ok  2/2 2"},
		"an element failed":      {[]history.Call{ok, failed}, nil, 1, "failed  1/2 2"},
		"and was made again":     {[]history.Call{ok, failed, state("1[1]", "ok", "")}, nil, 1, "ok  2/2 3"},
		"and in a resume":        {[]history.Call{ok, failed, resumed, state("1[1]", "ok", "")}, nil, 1, "ok  2/2 3"},
		"reused":                 {[]history.Call{ok, resumed}, nil, 1, "reused  1/1 1"},
		"a refused resume":       {[]history.Call{ok, resumed, refused}, nil, 1, "ok  1/1 1"},
		"running":                {[]history.Call{ok, state("1[1]", "running", "")}, nil, 1, "running  2/2 2"},
		"waiting":                {[]history.Call{ok, state("1[1]", "ok", "")}, []string{"4"}, 4, "waiting  0/0 0"},
		"an element waits":       {[]history.Call{ok}, []string{"1[1]"}, 1, "waiting  1/1 1"},
		"written":                {[]history.Call{state("4", "ok", fault.Applied)}, nil, 4, "ok applied 0/0 1"},
		"undone":                 {[]history.Call{state("4", "ok", fault.Undone), undo}, nil, 4, "undone undone 0/0 1"},
		"one of two undone":      {[]history.Call{state("4[0]", "ok", fault.Undone), state("4[1]", "ok", fault.Applied)}, nil, 4, "undone  2/2 2"},
		"read and written":       {[]history.Call{state("3.0", "ok", ""), state("3.1", "ok", fault.Applied)}, nil, 3, "ok applied 0/0 2"},
		"in an inline chain":     {[]history.Call{state("3.0", "ok", ""), state("3.1", "failed", "")}, nil, 3, "failed  0/0 2"},
		"of an element's chain":  {[]history.Call{state("3[0].0", "ok", ""), state("3[0].1", "failed", "")}, nil, 3, "failed  0/1 2"},
		"an inline chain waits":  {[]history.Call{state("3.0", "ok", "")}, []string{"3.1"}, 3, "waiting  0/0 1"},
		"an inline chain is new": {[]history.Call{ok}, nil, 3, "not run  0/0 0"},
	} {
		s := draw.OfRun("", plan, &history.Timeline{List: test.list}, test.waiting).Steps[test.step]
		if got := fmt.Sprintf("%s %s %d/%d %d", s.Status, s.Outcome, s.Done, s.Elements, s.Calls); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}
