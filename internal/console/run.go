package console

import (
	"cmp"
	"context"
	"html/template"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/draw"
	"github.com/onecall-mcp/onecall/internal/history"
	"github.com/onecall-mcp/onecall/steps"
)

const (
	rowsShown     = 200 // the rows of a page: steps and events of a run, or calls of a step
	elementsShown = 10  // the elements that a step of a run opens
	notOKShown    = 20  // the parts of a run
	// planTime bounds what it may take to compile the chain of a run again, for its picture.
	planTime = 2 * time.Second
)

// runView is the page of one run.
type runView struct {
	history.Run
	NotOK []history.Run // its parts that are not ok
	runActs
	Outcomes     []outcomeCount
	Retries      int
	Rows         []runRow
	From, To, Of int    // the rows of this page, from 1, and how many there are
	Next         int    // the offset of the next page; 0: there is none
	Step         string // the page is about this step; "": about the run
	FailedOnly   bool
	Values       bool // see Backend.Values
	All          bool
	Graph, Gantt template.HTML
}

// runActs says what the viewer can do with a run.
type runActs struct {
	Acts, Resumes, Waits, Undoes bool
	Denied                       bool   // calls were denied that can be approved
	Bound                        bool   // the run calls sources with its caller's own credential, which the viewer has not brought
	Flags                        string // see Backend.Flags
	Local                        bool   // the viewer can run commands beside this console
}

// outcomeCount is the number of calls that write with an outcome.
type outcomeCount struct {
	Outcome fault.Outcome
	Count   int
}

// runRow is an event, a call, or the calls of a step's elements together.
type runRow struct {
	history.Call
	N        int      // the number of its event, by which its page is found
	Step     string   // the outermost step
	Count    int      // how many calls it sums up; 0: it is a call or an event
	Failures int      // those of Count that failed
	Elements []runRow // the first of them, those that failed before others
}

// readRun reads the run of the request, which is of one of these callers (nil: of any), with what the viewer may know of it.
func (r *request) readRun(ctx context.Context, callers []string) (*journal.Past, *history.Timeline, func(string) bool, error) {
	if err := r.mustHaveJournal(); err != nil {
		return nil, nil, nil, err
	}
	past, err := r.read(ctx, r.PathValue("id"), callers)
	if err != nil {
		return nil, nil, nil, err
	}
	sees, err := r.seesFunction()
	if err != nil {
		return nil, nil, nil, err
	}
	t := history.OfPast(past)
	hideCalls(t, sees)
	return past, t, sees, nil
}

// hideCalls removes from a run all that a viewer may not know: names, and messages that may have them.
func hideCalls(t *history.Timeline, sees func(string) bool) {
	known := len(t.Functions)
	hideNames(&t.Run, sees)
	hidden := len(t.Functions) < known
	for i := range t.List {
		if c := &t.List[i]; c.Event == "" && !sees(c.Function) {
			c.Function, c.Message, hidden = "", "", true
		}
	}
	if !hidden {
		return
	}
	t.Message = ""
	for i := range t.List {
		if c := &t.List[i]; c.Event == history.Refused {
			c.Message = ""
		}
	}
}

// actsOn returns what the viewer can do with a run.
func (r *request) actsOn(past *journal.Past) runActs {
	own := !r.isOthers(&past.Row)
	a := runActs{Acts: r.viewer.Acts, Flags: r.Flags, Local: !r.Serves, Waits: past.Waiting != nil && past.Row.Status == journal.Waiting}
	a.Bound = !r.brings(past.Credentials)
	own = own && !a.Bound // else what it does would be refused
	a.Undoes = own && undoesMore(past)
	switch past.Row.Status {
	case journal.Failed, journal.MayContinue, journal.Interrupted:
		a.Resumes = own && !past.Row.Batch
		a.Denied = past.Row.Status != journal.Interrupted && slices.ContainsFunc(past.Events, func(e journal.Event) bool {
			return e.Kind == journal.Denied && slices.ContainsFunc(e.Approvals, func(name string) bool { return past.Denial(name) != nil })
		})
	}
	return a
}

// brings reports whether what the viewer does has these credentials, such as that of its login.
func (r *request) brings(credentials []string) bool {
	own := r.viewer.Credentials
	if own != "" && len(credentials) > 0 {
		if calls, err := r.Open(r.Context()); err == nil {
			own = calls.Catalog.Credentials(own)
		}
	}
	return steps.HasCredentials(own, strings.Join(credentials, " "))
}

// isOthers reports whether a run is another caller's, about which the viewer only decides.
func (r *request) isOthers(row *journal.Row) bool { return !r.viewer.All && row.Caller != r.viewer.ID }

// showRun shows what a run did.
func showRun(r *request) (*page, error) {
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	past, t, sees, err := r.readRun(ctx, r.decides())
	if err != nil {
		return nil, err
	}
	if err := t.AddParts(ctx, r.Journal, notOKShown); err != nil {
		return nil, err
	}
	for i := range t.NotOK {
		hideNames(&t.NotOK[i], sees)
	}
	v := &runView{Run: t.Run, NotOK: t.NotOK, runActs: r.actsOn(past), Outcomes: outcomesOf(t), Values: r.Values,
		All: r.viewer.All || r.isOthers(&past.Row)}
	for i := range t.List {
		v.Retries += t.List[i].Retries
	}
	v.show(r, t, bandsOf(t))
	r.addPictures(ctx, v, past, t)
	return &page{template: "run", title: cmp.Or(t.Chain, "Run") + " " + t.ID, data: v, live: t.ID}, nil
}

// showStep shows the calls of one step of a run.
func showStep(r *request) (*page, error) {
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	past, t, _, err := r.readRun(ctx, r.decides())
	if err != nil {
		return nil, err
	}
	v := &runView{Run: t.Run, runActs: r.actsOn(past), Values: r.Values, All: r.viewer.All || r.isOthers(&past.Row), Step: r.PathValue("step"),
		FailedOnly: r.URL.Query().Get("failed") != ""}
	var rows [][]int
	for i := range t.List {
		if c := &t.List[i]; c.Event == "" && stepOf(c.At) == v.Step && (!v.FailedOnly || c.Status == "failed") {
			rows = append(rows, []int{i})
		}
	}
	v.show(r, t, rows)
	return &page{template: "step", title: "Step " + v.Step + " " + t.ID, data: v, live: t.ID}, nil
}

// setPage sets which of Of rows the page shows, and returns the offset of the first.
func (v *runView) setPage(r *request) (from int) {
	from, _ = strconv.Atoi(r.URL.Query().Get("from"))
	from = max(0, min(from, v.Of-1))
	v.From, v.To, v.Next = from+1, min(from+rowsShown, v.Of), 0
	if v.To < v.Of {
		v.Next = v.To
	}
	return from
}

// show adds the rows of a page: bands has the indexes of the calls that each row sums up.
func (v *runView) show(r *request, t *history.Timeline, bands [][]int) {
	v.Of = len(bands)
	from := v.setPage(r)
	left := rowsShown // of elements
	for _, band := range bands[from:v.To] {
		row := r.rowOf(t, band[0])
		if len(band) > 1 {
			row = sumRow(t, band)
			shown := slices.Clone(band)
			slices.SortStableFunc(shown, func(a, b int) int { return cmp.Compare(isOK(t, a), isOK(t, b)) })
			for _, i := range shown[:min(len(shown), elementsShown, left)] {
				row.Elements = append(row.Elements, r.rowOf(t, i))
				left--
			}
		}
		v.Rows = append(v.Rows, row)
	}
}

// isOK is 0 for a call that failed, else 1.
func isOK(t *history.Timeline, i int) int {
	if t.List[i].Status == "failed" {
		return 0
	}
	return 1
}

// rowOf returns a call or an event with its values.
func (r *request) rowOf(t *history.Timeline, i int) runRow {
	if r.Values && t.List[i].Function != "" {
		t.ShowCall(i, r.Scrubber)
	}
	return runRow{Call: t.List[i], N: t.Number(i), Step: stepOf(t.List[i].At)}
}

// bandsOf groups the calls of the elements of one step between two resumes. Any other call, and each event, is a group of its own.
func bandsOf(t *history.Timeline) (bands [][]int) {
	open := map[string]int{} // by step: the index of its band
	for i := range t.List {
		c := &t.List[i]
		step, element := stepOf(c.At), ""
		if c.Event == "" {
			element = strings.TrimPrefix(c.At, step)
		}
		switch {
		case c.Event == history.Resumed:
			clear(open)
		case strings.HasPrefix(element, "["):
			if c.Undoes {
				step = "undo " + step
			}
			if n, known := open[step]; known {
				bands[n] = append(bands[n], i)
				continue
			}
			open[step] = len(bands)
		}
		bands = append(bands, []int{i})
	}
	return bands
}

// stepOf returns the outermost step of a path.
func stepOf(path string) string {
	if end := strings.IndexAny(path, "[."); end >= 0 {
		return path[:end]
	}
	return path
}

// sumRow sums up the calls of a band.
func sumRow(t *history.Timeline, band []int) runRow {
	first := t.List[band[0]]
	row := runRow{Call: history.Call{At: stepOf(first.At) + "[…]", Function: first.Function, Status: "ok", Outcome: first.Outcome, Wave: first.Wave,
		After: first.After, Undoes: first.Undoes}, Step: stepOf(first.At), Count: len(band)}
	end := 0.0
	for _, i := range band {
		c := &t.List[i]
		row.After, end = min(row.After, c.After), max(end, c.After+c.Millis)
		row.Retries, row.Bytes, row.Tokens = row.Retries+c.Retries, row.Bytes+c.Bytes, row.Tokens+c.Tokens
		if c.Outcome != row.Outcome {
			row.Outcome = ""
		}
		if c.Function != row.Function {
			row.Function = "chain"
		}
		switch {
		case c.Status == "failed":
			row.Failures, row.Status, row.Code = row.Failures+1, "failed", cmp.Or(row.Code, c.Code)
		case c.Status == "running" && row.Status == "ok":
			row.Status = "running"
		}
	}
	row.Millis = end - row.After
	return row
}

// outcomesOf counts the outcomes of a run's writes.
func outcomesOf(t *history.Timeline) (list []outcomeCount) {
	counts := map[fault.Outcome]int{}
	for i := range t.List {
		if c := &t.List[i]; !c.Undoes {
			counts[c.Outcome]++
		}
	}
	for _, outcome := range fault.Outcomes() {
		if counts[outcome] > 0 {
			list = append(list, outcomeCount{outcome, counts[outcome]})
		}
	}
	return list
}

// addPictures draws the run on the plan of its chain, which is compiled again if functions are at hand; else by the times of its calls.
func (r *request) addPictures(ctx context.Context, v *runView, past *journal.Past, t *history.Timeline) {
	if !slices.ContainsFunc(t.List, func(c history.Call) bool { return c.Event == "" }) {
		return
	}
	var waiting []string
	if v.Waits {
		for _, call := range gjson.ParseBytes(past.Waiting.Args).Array() {
			waiting = append(waiting, call.Get("at").Str)
		}
	}
	plan := r.planOf(ctx, past)
	title := cmp.Or(t.Chain, t.ID)
	graph, gantt := draw.OfRun(title, plan, t, waiting), draw.CallsOf(title, plan, t)
	link := func(at string) string { return Path + "runs/" + t.ID + "/steps/" + stepOf(at) }
	for i := range graph.Steps {
		graph.Steps[i].Link = link(graph.Steps[i].At)
	}
	for i := range gantt.Rows {
		gantt.Rows[i].Link = link(gantt.Rows[i].At)
	}
	v.Graph, v.Gantt = picture(graph.SVG()), picture(gantt.SVG())
}

// planOf returns the plan of a run's chain as the viewer may use functions now; nil: it is not known without starting sources, or does not
// compile any more.
func (r *request) planOf(ctx context.Context, past *journal.Past) *chain.DryRun {
	if past.Chain == nil || r.Opened != nil && !r.Opened() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, planTime)
	defer cancel()
	text, faults := chain.SaveAs(past.Chain, nil) // without what belongs to the run, such as its key
	if len(faults) > 0 {
		return nil
	}
	bounded := *r
	bounded.Request = r.WithContext(ctx)
	a, err := bounded.check(text, nil)
	if err != nil {
		return nil
	}
	return a.Plan
}

// callView is the page of one call of a run.
type callView struct {
	Run string
	history.Call
	Args, Result string // as people read them; "": they are not known
	Values       bool
}

// showCall shows a call with its arguments and its result.
func showCall(r *request) (*page, error) {
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	_, t, _, err := r.readRun(ctx, r.decides())
	if err != nil {
		return nil, err
	}
	n, _ := strconv.Atoi(r.PathValue("n"))
	for i := range t.List {
		if t.Number(i) != n || t.List[i].Event != "" {
			continue
		}
		v := &callView{Run: t.ID, Call: r.rowOf(t, i).Call, Values: r.Values}
		if v.Call.Values != nil {
			v.Args, v.Result = readable(gjson.ParseBytes(v.Call.Args)), readable(gjson.ParseBytes(v.Call.Result))
		}
		return &page{template: "call", title: "Call " + v.At + " " + t.ID, data: v}, nil
	}
	return nil, fault.New(fault.TokenExpired, "the run has no such call any more: it was made again, or the run is another one")
}
