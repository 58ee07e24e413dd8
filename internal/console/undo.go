package console

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/history"
	"github.com/onecall-mcp/onecall/internal/rawjson"
)

// undoView is the page of what an undo of a run would do.
type undoView struct {
	ID, Chain string
	runActs
	Calls   []undoCall // at most rowsShown
	Total   int        // of Calls
	Undoes  int        // how many of Total would be undone
	Unknown []unknownCall
}

// undoCall is a call that an undo would look at.
type undoCall struct {
	At, Function string // "": a function that the viewer may not use
	Sent         string // the arguments of the call, if they may be shown
	By, Args     string // the function that undoes it, and its arguments if they may be shown
	Stays        string // why it is not undone; "": it is
}

// unknownCall is a call whose outcome is unknown until the viewer states it.
type unknownCall struct {
	At, Function string
	Said         string // applied, not_sent, or nothing
}

// undoable returns the calls that an undo of the run would look at, in its order: those that are or may be done, the last one first.
func undoable(past *journal.Past) []*journal.PastCall {
	if past.Row.Status == journal.Running || past.Row.Batch {
		return nil
	}
	list := slices.DeleteFunc(past.Calls(), func(c *journal.PastCall) bool {
		return !c.Writes() || c.Undoes != 0 || c.Outcome != fault.Applied && c.Outcome != fault.SentUnknown
	})
	slices.SortFunc(list, func(a, b *journal.PastCall) int { return cmp.Compare(cmp.Or(b.Ended, b.N), cmp.Or(a.Ended, a.N)) })
	return list
}

// undoesMore reports whether an undo of the run would do anything, or say why it does not.
func undoesMore(past *journal.Past) bool {
	calls := undoable(past)
	if past.Row.Status != journal.Undone {
		return len(calls) > 0
	}
	return slices.ContainsFunc(calls, func(c *journal.PastCall) bool {
		return c.Outcome == fault.SentUnknown || c.Undo != nil && !gjson.GetBytes(c.Undo, "error").Exists()
	})
}

// showUndo shows what an undo of a run would do, as the journal says it: functions may be missing later.
func showUndo(r *request) (*page, error) {
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	past, t, sees, err := r.readRun(ctx, r.own())
	if err != nil {
		return nil, err
	}
	calls := undoable(past)
	v := &undoView{ID: t.ID, Chain: t.Chain, runActs: r.actsOn(past), Total: len(calls), Unknown: unknownCalls(calls, sees, nil)}
	for i, c := range calls {
		u := r.undoCall(c, sees)
		if u.Stays == "" {
			v.Undoes++
		}
		if i < rowsShown {
			v.Calls = append(v.Calls, u)
		}
	}
	return &page{template: "undo", title: "Undo " + v.ID, data: v}, nil
}

func (r *request) undoCall(c *journal.PastCall, sees func(string) bool) undoCall {
	u := undoCall{At: c.StepPath}
	undo := gjson.ParseBytes(c.Undo)
	known := sees(c.Function)
	if known {
		u.Function = c.Function
	}
	if known && r.Values && len(c.Args) > 0 {
		u.Sent = string(history.Shown(c.Args, r.Scrubber))
	}
	if by := undo.Get("fn").Str; sees(by) {
		u.By = by
		if args := undo.Get("args"); r.Values && args.Exists() {
			u.Args = string(history.Shown([]byte(args.Raw), r.Scrubber))
		}
	}
	switch problem := undo.Get("error"); {
	case c.Outcome == fault.SentUnknown:
		u.Stays = "it is not known whether it was done"
	case c.Undo == nil:
		u.Stays = "it has no undo"
	case problem.Exists() && known:
		u.Stays = "its undo cannot be made: " + problem.Str
	case problem.Exists():
		u.Stays = "its undo cannot be made"
	case c.UndoUnknown:
		u.Stays = "it is not known whether it was undone"
	}
	return u
}

// unknownCalls returns the calls among some whose outcome is not known. said has what the viewer says of them.
func unknownCalls(calls []*journal.PastCall, sees func(string) bool, said map[string]string) (list []unknownCall) {
	for _, c := range calls {
		if c.Outcome != fault.SentUnknown || len(list) == rowsShown {
			continue
		}
		u := unknownCall{At: c.StepPath, Said: said[c.StepPath]}
		if sees(c.Function) {
			u.Function = c.Function
		}
		list = append(list, u)
	}
	return list
}

// assumed returns what the form says of calls whose outcome is not known, by their places.
func (r *request) assumed() (map[string]string, error) {
	said := map[string]string{}
	_ = r.PostFormValue("assume") // parses the form
	for _, value := range r.PostForm["assume"] {
		at, outcome, _ := strings.Cut(value, "=")
		switch fault.Outcome(outcome) {
		case "":
		case fault.Applied, fault.NotSent:
			said[at] = outcome
		default:
			return nil, fault.New(fault.BadRequest, "a call is either applied or not_sent, not %s", fault.Quote(fault.Clip(outcome, 60)))
		}
	}
	return said, nil
}

// resumption adds to a request the run that it continues, and what the viewer says of its calls.
func resumption(t *rawjson.Table, run string, said map[string]string) ([]byte, error) {
	for name, value := range map[string]any{"resume": run, "assume": said} {
		if name == "assume" && len(said) == 0 {
			continue
		}
		raw, err := rawjson.Marshal(value)
		if err != nil {
			return nil, err
		}
		t.Set(name, string(raw))
	}
	return rawjson.AppendObject(nil, t.List), nil
}

// undo undoes what a run wrote.
func undo(r *request) (*page, error) {
	past, said, err := r.mayContinue()
	if err != nil {
		return nil, err
	}
	text, err := resumption(rawjson.NewTable([]byte(`{"undo":true}`)), past.Row.ID, said)
	if err != nil {
		return nil, err
	}
	return r.startAct(&act{Title: "Undo " + past.Row.ID, Run: past.Row.ID, undoes: true}, "", text, chain.Override{})
}

// mayContinue checks that the viewer may act on the run of the request, and returns it with what the viewer says of its calls.
func (r *request) mayContinue() (*journal.Past, map[string]string, error) {
	if err := r.mustAct(); err != nil {
		return nil, nil, err
	}
	if err := r.mustHaveJournal(); err != nil {
		return nil, nil, err
	}
	said, err := r.assumed()
	if err != nil {
		return nil, nil, err
	}
	past, err := r.read(r.Context(), r.PathValue("id"), r.own())
	return past, said, err
}
