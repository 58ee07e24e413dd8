package console

import (
	"context"
	"net/url"
	"slices"
	"strings"

	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/history"
	"github.com/onecall-mcp/onecall/steps"
)

// runsShown is the number of runs on a page.
const runsShown = 50

// runsView is the page of runs.
type runsView struct {
	Filter runsFilter
	Runs   []history.Run
	All    bool // the runs are of several callers
}

// runsFilter is what the form of the page asks for.
type runsFilter struct{ Status, Function, Chain, Caller string }

// Statuses are those that runs can be filtered by.
func (runsFilter) Statuses() []journal.Status {
	return []journal.Status{journal.Running, journal.OK, journal.Failed, journal.Waiting, journal.MayContinue, journal.Undone,
		journal.Interrupted}
}

func filterOf(query url.Values) (f runsFilter) {
	get := func(name string) string { return strings.TrimSpace(query.Get(name)) }
	return runsFilter{get("status"), get("function"), get("chain"), get("caller")}
}

// showRuns shows the newest runs.
func showRuns(r *request) (*page, error) {
	if err := r.mustHaveJournal(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	v := &runsView{Filter: filterOf(r.URL.Query()), All: r.viewer.All}
	sees, err := r.seesFunction()
	if err != nil {
		return nil, err
	}
	f, err := r.journalFilter(&v.Filter, sees)
	if err != nil {
		return nil, err
	}
	if v.Runs, err = history.Runs(ctx, r.Journal, f); err != nil {
		return nil, err
	}
	for i := range v.Runs {
		hideNames(&v.Runs[i], sees)
	}
	return &page{template: "runs", title: "Runs", data: v}, nil
}

// journalFilter returns the filter of the journal. It never selects runs that the viewer may not see, nor tells whether there are some: a
// function that the viewer may not use selects as if it did not exist.
func (r *request) journalFilter(f *runsFilter, sees func(name string) bool) (*journal.Filter, error) {
	if f.Status != "" && !slices.Contains(f.Statuses(), journal.Status(f.Status)) {
		return nil, fault.New(fault.BadRequest, "there is no status %q", fault.Clip(f.Status, 60))
	}
	j := &journal.Filter{Caller: r.owner(), Status: journal.Status(f.Status), Function: f.Function, Limit: runsShown}
	if f.Chain != "" {
		j.Chains = []string{f.Chain}
	}
	if f.Caller != "" && r.viewer.All {
		j.Caller = &f.Caller
	}
	if f.Function != "" && !sees(f.Function) {
		j.Function = "\x00" // the name of no function
	}
	if f.Status == "" && f.Function == "" && f.Chain == "" {
		j.Parent = new(string) // parts are shown with what they are parts of
	}
	return j, nil
}

// hideNames removes from a run the names that a viewer may not know.
func hideNames(run *history.Run, sees func(name string) bool) {
	run.Functions = slices.DeleteFunc(run.Functions, func(name string) bool { return !sees(name) })
	if strings.HasPrefix(run.Chain, steps.ChainSource+".") && !sees(run.Chain) {
		run.Chain = ""
	}
}
