package console

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/history"
	"github.com/onecall-mcp/onecall/steps"
)

// runsShown is the number of runs on a page.
const runsShown = 50

// minPrefix is how many characters of a run's id find it, after journal.IDPrefix.
const minPrefix = 8

// runsView is the page of runs.
type runsView struct {
	Filter  runsFilter
	Runs    []listedRun
	All     bool   // the runs may be of several callers
	Later   string // the address of the page of earlier runs; "": there are none
	Command string // shows the same in a terminal; "": no command does
}

// listedRun is a run in a list.
type listedRun struct {
	history.Run
	PartsText string // "": it has no parts
}

// runsFilter is what the form of the page asks for.
type runsFilter struct{ Status, Function, Chain, Caller, Parent, Run, Since, Until, Before string }

// Statuses are those that runs can be filtered by.
func (runsFilter) Statuses() []journal.Status {
	return []journal.Status{journal.Running, journal.OK, journal.Failed, journal.Waiting, journal.MayContinue, journal.Undone,
		journal.Interrupted}
}

func filterOf(query url.Values) runsFilter {
	get := func(name string) string { return strings.TrimSpace(query.Get(name)) }
	return runsFilter{get("status"), get("function"), get("chain"), get("caller"), get("parent"), get("run"), get("since"), get("until"),
		get("before")}
}

// showRuns shows the newest runs, or goes to the one that the viewer looks for.
func showRuns(r *request) (*page, error) {
	if err := r.mustHaveJournal(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	v := &runsView{Filter: filterOf(r.URL.Query()), All: len(r.decides()) != 1}
	sees, err := r.seesFunction()
	if err != nil {
		return nil, err
	}
	f, err := r.journalFilter(&v.Filter, sees)
	if err != nil {
		return nil, err
	}
	runs, err := history.Runs(ctx, r.Journal, f)
	switch {
	case err != nil:
		return nil, err
	case v.Filter.Run != "" && len(runs) == 0:
		return nil, journal.ErrNotFound
	case v.Filter.Run != "" && len(runs) == 1:
		return &page{redirect: "runs/" + runs[0].ID}, nil
	case len(runs) > runsShown:
		runs = runs[:runsShown]
		query, last := r.URL.Query(), &runs[runsShown-1]
		query.Set("before", last.Began.UTC().Format(time.RFC3339Nano)+" "+last.ID)
		v.Later = Path + "?" + query.Encode()
	}
	for i := range runs {
		hideNames(&runs[i], sees)
		v.Runs = append(v.Runs, listedRun{runs[i], partsText(runs[i].Parts)})
	}
	if r.viewer.All && !r.Serves {
		v.Command = v.Filter.command(r.Flags, time.Now())
	}
	p := &page{template: "runs", title: "Runs", data: v}
	if v.Filter.Before == "" {
		p.live = liveAll
	}
	return p, nil
}

// partsText spells the parts of a run, such as "3 parts, 1 failed".
func partsText(parts journal.Parts) string {
	if len(parts) == 0 {
		return ""
	}
	text := strconv.Itoa(parts.Total()) + " parts"
	for _, status := range (runsFilter{}).Statuses() {
		if n := parts[status]; n > 0 && status != journal.OK {
			text += fmt.Sprintf(", %d %s", n, status)
		}
	}
	return text
}

// journalFilter returns the filter of the journal. It never selects runs that the viewer may not see, nor says that there are some: a
// function that the viewer may not use selects as if it did not exist.
func (r *request) journalFilter(f *runsFilter, sees func(name string) bool) (*journal.Filter, error) {
	if f.Status != "" && !slices.Contains(f.Statuses(), journal.Status(f.Status)) {
		return nil, fault.New(fault.BadRequest, "there is no status %q", fault.Clip(f.Status, 60))
	}
	j := &journal.Filter{Callers: r.own(), Scope: r.Scope, Status: journal.Status(f.Status), Function: f.Function, Limit: runsShown + 1}
	if f.Run != "" {
		j.IDPrefix = journal.IDPrefix + strings.TrimPrefix(f.Run, journal.IDPrefix)
		if len(j.IDPrefix) < len(journal.IDPrefix)+minPrefix { // all runs of some days may begin with it
			return nil, fault.New(fault.BadRequest, "the beginning of a run's id has at least %d characters after %s", minPrefix, journal.IDPrefix)
		}
		return j, nil
	}
	var errs [3]error
	j.Since, errs[0] = timeOf("since", f.Since)
	j.Until, errs[1] = timeOf("until", f.Until)
	j.Before, errs[2] = positionOf(f.Before)
	if f.Chain != "" {
		j.Chains = []string{f.Chain}
	}
	if f.Caller != "" && (r.viewer.All || slices.Contains(r.decides(), f.Caller)) {
		j.Callers = []string{f.Caller}
	}
	if f.Function != "" && !sees(f.Function) {
		j.Function = "\x00" // the name of no function
	}
	if f.Parent != "" || f.Status == "" && f.Function == "" && f.Chain == "" {
		j.Parent = &f.Parent // "": parts are shown with what they are parts of
	}
	return j, errors.Join(errs[:]...)
}

// timeOf reads a time (UTC) as browsers write it.
func timeOf(field, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{"2006-01-02T15:04", "2006-01-02T15:04:05", time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fault.New(fault.BadRequest, "%s is %q: write a time such as 2006-01-02T15:04", field, fault.Clip(text, 60))
}

// positionOf reads the position after which a list goes on; nil: from the newest on.
func positionOf(text string) (*journal.Position, error) {
	if text == "" {
		return nil, nil
	}
	began, id, _ := strings.Cut(text, " ")
	at, err := time.Parse(time.RFC3339Nano, began)
	if err != nil || !strings.HasPrefix(id, journal.IDPrefix) {
		return nil, fault.New(fault.BadRequest, "before is %q: follow the link to earlier runs", fault.Clip(text, 60))
	}
	return &journal.Position{Began: at, ID: id}, nil
}

// command returns the command that lists the same runs; "": none does, since onecall runs knows no end of the time.
func (f *runsFilter) command(flags string, now time.Time) string {
	if f.Until != "" || f.Before != "" || f.Run != "" {
		return ""
	}
	text := "onecall runs" + flags
	for _, flag := range [][2]string{{"status", f.Status}, {"function", f.Function}, {"chain", f.Chain}, {"caller", f.Caller},
		{"parent", f.Parent}} {
		if flag[1] != "" {
			text += " --" + flag[0] + " " + shellWord(flag[1])
		}
	}
	if since, err := timeOf("since", f.Since); err == nil && f.Since != "" {
		text += fmt.Sprintf(" --since %dm", int(now.Sub(since)/time.Minute)+1)
	}
	return text
}

// shellWord quotes a word for a shell if it must be.
func shellWord(word string) string {
	if !strings.ContainsFunc(word, func(c rune) bool {
		return !strings.ContainsRune("-_./:@", c) && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z')
	}) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// maxWaiting is how many runs that wait for approval are counted.
const maxWaiting = 100

// waitingRuns is the filter of the runs that wait for approval about which the viewer may decide, at most limit.
func (r *request) waitingRuns(limit int) *journal.Filter {
	return &journal.Filter{Callers: r.decides(), Scope: r.Scope, Status: journal.Waiting, Code: fault.ApprovalRequired, Limit: limit}
}

// countWaiting returns how many runs about which the viewer may decide wait for approval; "": none, or the journal does not tell, which
// pages of runs will.
func (r *request) countWaiting() string {
	if r.Backend == nil || r.Journal == nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(r.Context(), time.Second)
	defer cancel()
	n, _ := r.Journal.Count(ctx, r.waitingRuns(maxWaiting))
	switch n {
	case 0:
		return ""
	case maxWaiting:
		return strconv.Itoa(n) + "+"
	}
	return strconv.Itoa(n)
}

// hideNames removes from a run the names that a viewer may not know.
func hideNames(run *history.Run, sees func(name string) bool) {
	run.Functions = slices.DeleteFunc(run.Functions, func(name string) bool { return !sees(name) })
	if strings.HasPrefix(run.Chain, steps.ChainSource+".") && !sees(run.Chain) {
		run.Chain = ""
	}
}
