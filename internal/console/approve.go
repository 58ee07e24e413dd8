package console

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/history"
)

const (
	approvalsShown = 25 // runs that wait, on a page
	waitingShown   = 50 // waiting calls, on a page
)

// approvalsView is the page of the runs that wait for approval.
type approvalsView struct {
	Runs []waitingRun
	All  bool
	Next string // the query of the next page; "": this is the last one
}

// waitingRun is a run that waits for approval.
type waitingRun struct {
	history.Run
	Since time.Time // since when it waits
	Calls []waitingCount
}

// waitingCount is the number of waiting calls of a function.
type waitingCount struct {
	Function string // "": functions that the viewer may not know
	Count    int
}

// showApprovals shows the runs that wait for approval, the one that has waited longest first within a page.
func showApprovals(r *request) (*page, error) {
	if err := r.mustHaveJournal(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	sees, err := r.seesFunction()
	if err != nil {
		return nil, err
	}
	before, err := positionOf(r.URL.Query().Get("before"))
	if err != nil {
		return nil, err
	}
	f := r.waitingRuns(approvalsShown + 1)
	f.Before = before
	runs, err := history.Runs(ctx, r.Journal, f)
	if err != nil {
		return nil, err
	}
	v := &approvalsView{All: len(r.decides()) != 1}
	if len(runs) > approvalsShown {
		runs = runs[:approvalsShown]
		last := &runs[approvalsShown-1]
		v.Next = "?" + url.Values{"before": {last.Began.UTC().Format(time.RFC3339Nano) + " " + last.ID}}.Encode()
	}
	for i := range runs {
		past, err := r.read(ctx, runs[i].ID, r.decides())
		if err != nil || past.Waiting == nil { // it has gone on meanwhile
			continue
		}
		hideNames(&runs[i], sees)
		w := waitingRun{Run: runs[i], Since: time.UnixMicro(past.Waiting.At)}
		for _, call := range gjson.ParseBytes(past.Waiting.Args).Array() {
			name := call.Get("fn").Str
			if !sees(name) {
				name = ""
			}
			n := slices.IndexFunc(w.Calls, func(c waitingCount) bool { return c.Function == name })
			if n < 0 {
				n, w.Calls = len(w.Calls), append(w.Calls, waitingCount{Function: name})
			}
			w.Calls[n].Count++
		}
		v.Runs = append(v.Runs, w)
	}
	slices.SortStableFunc(v.Runs, func(a, b waitingRun) int { return a.Since.Compare(b.Since) })
	p := &page{template: "approvals", title: "Approvals", data: v}
	if before == nil {
		p.live = liveAll
	}
	return p, nil
}

// waitingView is the page of the calls of one run that can be decided about.
type waitingView struct {
	ID, Chain, Caller string
	Digest            string
	Total             int            // the calls that the viewer can decide about
	Hidden            int            // calls of functions that the viewer may not use
	Denied, Approved  int            // how many of them were denied, or approved and not made; both 0: they wait
	Ends              bool           // a denied call ends the chain
	Groups            []waitingGroup // the calls of this page
	Before            string         // the last approved run of the chain; "": none was found
	At                string         // the only place that is shown, in full; "": all
	From, To, Next    int            // the calls of this page, from 1; Next is the offset of the next page, 0: there is none
	Acts              bool
	Flags             string // see Backend.Flags
	Local             bool   // the viewer can run commands beside this console
	choice
	Elsewhere []string // the chosen places that are on other pages
	Changed   bool     // other calls than those that were chosen from can be decided about now, so that none is chosen any more
}

// choice is what the form says before a decision.
type choice struct {
	Chosen       map[string]bool // places of calls
	Reason, Rest string
}

// Offset is the offset of the first call of this page.
func (v *waitingView) Offset() int { return v.From - 1 }

// waitingGroup has the calls of a function.
type waitingGroup struct {
	Function, Effect string
	Total            int // on all pages
	Calls            []waitingCall
}

// waitingCall is a call that can be decided about.
type waitingCall struct {
	At, ID   string
	Args     []waitingArg
	Compared bool   // Before of Args is that of a call of the last approved run
	Cut      bool   // not all of Args is shown
	Undo     string // the function that would undo it; "": none
	UndoArgs string
	Flows    []string // the ways of values that flow rules ask about
	DeniedBy string   // by whom, when and why it was denied
	Approved bool     // it is approved, and was not made
}

// waitingArg is an argument of a call.
type waitingArg struct {
	Name, Value, Before string
	Differs             bool
}

// showWaiting shows the calls of a run that wait for approval or were denied, beside those of the last approved run of the chain.
func showWaiting(r *request) (*page, error) {
	if err := r.mustHaveJournal(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	o, err := r.waiting(ctx)
	if err != nil {
		return nil, err
	}
	query := r.URL.Query()
	return r.waitingPage(ctx, o, query.Get("at"), query.Get("from"), choice{})
}

// turnPage shows other calls of the run, and keeps what the form says: also which calls are chosen, unless they may be other ones now.
func (r *request) turnPage(o *offered) (*page, error) {
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	c := choice{map[string]bool{}, r.PostFormValue("reason"), r.PostFormValue("rest")}
	same := r.PostFormValue("digest") == o.digest
	for _, place := range r.PostForm["at"] {
		c.Chosen[place] = same
	}
	at, offset := "", r.PostFormValue("turn")
	if offset == "same" {
		at, offset = r.PostFormValue("only"), r.PostFormValue("from")
	}
	p, err := r.waitingPage(ctx, o, at, offset, c)
	if err == nil {
		p.data.(*waitingView).Changed = !same //nolint:forcetypeassert // it is the page's
	}
	return p, err
}

// waitingPage shows the call at a place, or those from an offset, with what was chosen.
func (r *request) waitingPage(ctx context.Context, o *offered, at, offset string, c choice) (*page, error) {
	totals, row := o.sortByFunction(), &o.past.Row
	run := history.Run{Chain: row.Chain}
	hideNames(&run, o.sees)
	v := &waitingView{ID: row.ID, Chain: run.Chain, Caller: row.Caller, Digest: o.digest, Total: len(o.calls), Hidden: o.hidden,
		Ends: chain.EndsWhereDenied(o.past), At: at, Acts: r.viewer.Acts, Flags: r.Flags, Local: !r.Serves, choice: c}
	before, err := r.lastApproved(ctx, o.past)
	if err != nil {
		return nil, err
	}
	v.Before = before.run
	from, to := o.shown(at, offset)
	pairs := before.pairs(o.calls)
	for i, call := range o.calls {
		name := call.Get("fn").Str
		if call.Get("denied").Exists() {
			v.Denied++
		} else if call.Get("approved").Exists() {
			v.Approved++
		}
		if i < from || i >= to {
			if place := call.Get("at").Str; c.Chosen[place] {
				v.Elsewhere = append(v.Elsewhere, place)
			}
			continue
		}
		if n := len(v.Groups); n == 0 || v.Groups[n-1].Function != name {
			v.Groups = append(v.Groups, waitingGroup{Function: name, Effect: call.Get("effect").Str, Total: totals[name]})
		}
		g := &v.Groups[len(v.Groups)-1]
		g.Calls = append(g.Calls, r.waitingCall(call, pairs[i], at != "", o.sees))
	}
	v.From, v.To = from+1, to
	if v.To < len(o.calls) {
		v.Next = v.To
	}
	return &page{template: "waiting", title: "Approve " + v.ID, data: v}, nil
}

// offered are the calls of a run that the viewer can decide about.
type offered struct {
	past   *journal.Past
	calls  []gjson.Result // those of functions that the viewer may use
	hidden int            // how many others there are
	digest string         // of all
	sees   func(name string) bool
}

// waiting returns the calls of the run of the request that can be decided about.
func (r *request) waiting(ctx context.Context) (*offered, error) {
	past, err := r.read(ctx, r.PathValue("id"), r.decides())
	if err != nil {
		return nil, err
	}
	all, err := chain.Waiting(ctx, r.Journal, past.Row.ID)
	if err != nil {
		return nil, err
	}
	sees, err := r.seesFunction()
	if err != nil {
		return nil, err
	}
	o := &offered{past: past, digest: chain.DigestOf(all), sees: sees}
	for _, call := range all {
		if sees(call.Get("fn").Str) {
			o.calls = append(o.calls, call)
		} else {
			o.hidden++
		}
	}
	return o, nil
}

// sortByFunction puts the calls of a function together, functions in the order of their first calls. It returns how many each has.
func (o *offered) sortByFunction() (totals map[string]int) {
	totals, first := map[string]int{}, map[string]int{}
	for i, call := range o.calls {
		name := call.Get("fn").Str
		if totals[name]++; totals[name] == 1 {
			first[name] = i
		}
	}
	slices.SortStableFunc(o.calls, func(a, b gjson.Result) int { return cmp.Compare(first[a.Get("fn").Str], first[b.Get("fn").Str]) })
	return totals
}

// shown returns which calls a page shows: the one at a place, or those from an offset.
func (o *offered) shown(at, offset string) (from, to int) {
	if at != "" {
		from = slices.IndexFunc(o.calls, func(call gjson.Result) bool { return call.Get("at").Str == at })
		return from, from + 1
	}
	from, _ = strconv.Atoi(offset)
	from = max(0, min(from, len(o.calls)-1))
	return from, min(from+waitingShown, len(o.calls))
}

// maxArgument bounds an argument on the page of all calls, in characters.
const maxArgument = 600

// waitingCall returns a call as the page shows it, beside an earlier one, which may not exist. whole: nothing of it is cut.
func (r *request) waitingCall(call, before gjson.Result, whole bool, sees func(string) bool) waitingCall {
	w := waitingCall{At: call.Get("at").Str, ID: call.Get("id").Str, Compared: before.Exists(), Approved: call.Get("approved").Bool()}
	text := func(value string) string {
		shown := string(history.Shown([]byte(value), r.Scrubber))
		if !whole && len(shown) > maxArgument {
			w.Cut, shown = true, fault.ClipRunes(shown, maxArgument)
		}
		return shown
	}
	// Members named like a secret are known by their names: all arguments are shown before they are taken apart. What differs is seen before.
	args, earlier := call.Get("args"), before.Get("args")
	sent := gjson.ParseBytes(history.Shown([]byte(args.Raw), r.Scrubber))
	old := gjson.ParseBytes(history.Shown([]byte(earlier.Raw), r.Scrubber))
	oldArgs, sentRaw, oldRaw := old.Map(), args.Map(), earlier.Map()
	add := func(name, value, other string) {
		differs := w.Compared && !history.Same([]byte(sentRaw[name].Raw), []byte(oldRaw[name].Raw))
		w.Args = append(w.Args, waitingArg{name, text(value), text(other), differs})
	}
	sent.ForEach(func(name, value gjson.Result) bool {
		add(name.Str, value.Raw, oldArgs[name.Str].Raw)
		return true
	})
	old.ForEach(func(name, value gjson.Result) bool {
		if _, isSent := sentRaw[name.Str]; !isSent {
			add(name.Str, "", value.Raw)
		}
		return true
	})
	if undo := call.Get("undo.fn").Str; sees(undo) {
		w.Undo, w.UndoArgs = undo, text(call.Get("undo.args").Raw)
	}
	for _, flow := range call.Get("flows").Array() {
		w.Flows = append(w.Flows, flow.Str)
	}
	if d := call.Get("denied"); d.Exists() {
		w.DeniedBy = strings.Trim(strings.Join([]string{d.Get("by").Str, d.Get("at").Str, d.Get("reason").Str}, " · "), " ·")
	}
	return w
}

// others returns the places of the calls that a page has shown beside those that were chosen on it.
func (o *offered) others(chosen []string, at, offset string) (places []string) {
	o.sortByFunction()
	from, to := o.shown(at, offset)
	for _, call := range o.calls[max(from, 0):to] {
		if place := call.Get("at").Str; !slices.Contains(chosen, place) {
			places = append(places, place)
		}
	}
	return places
}

// has reports whether some of the calls have a member, approved or denied.
func (o *offered) has(member string) bool {
	return slices.ContainsFunc(o.calls, func(call gjson.Result) bool { return call.Get(member).Exists() })
}

// decide approves or denies calls: all, or those that were chosen. The digest ties the decision to what the page showed.
func decide(r *request) (*page, error) {
	if err := r.mustAct(); err != nil {
		return nil, err
	}
	if err := r.mustHaveJournal(); err != nil {
		return nil, err
	}
	o, err := r.waiting(r.Context())
	if err != nil {
		return nil, err
	}
	if r.PostForm.Has("turn") {
		return r.turnPage(o)
	}
	ruling := &chain.Ruling{Digest: r.PostFormValue("digest"), Sees: o.sees, By: cmp.Or(r.viewer.Name, r.viewer.ID),
		Reason: strings.Join(strings.Fields(r.PostFormValue("reason")), " ")} // of one line or more
	if ruling.Digest == "" {
		return nil, fault.New(fault.BadRequest, "the form has no digest: load the page again")
	}
	chosen := r.PostForm["at"]
	switch decision := r.PostFormValue("decision"); decision {
	case "approve-all":
		if o.has("approved") && o.has("denied") {
			return nil, fault.New(fault.BadRequest, "some calls are approved already, and what was denied stays denied: choose the calls to approve")
		}
		ruling.Rest = journal.Approved
	case "deny-all":
		ruling.Rest = journal.Denied
	case "approve", "deny":
		if len(chosen) == 0 {
			return nil, fault.New(fault.BadRequest, "no call is chosen: choose some, or decide about all")
		}
		if ruling.Deny = chosen; decision == "approve" {
			ruling.Approve, ruling.Deny = chosen, nil
			if r.PostFormValue("rest") == "deny" {
				ruling.Deny = o.others(chosen, r.PostFormValue("only"), r.PostFormValue("from"))
			}
		}
	default:
		return nil, fault.New(fault.BadRequest, "the form says neither approve nor deny")
	}
	left, err := chain.Decide(r.Context(), r.Journal, o.past.Row.ID, ruling)
	if err != nil {
		return nil, err
	}
	if len(left) > 0 {
		return &page{redirect: "runs/" + o.past.Row.ID + "/approve"}, nil
	}
	return &page{redirect: "runs/" + o.past.Row.ID}, nil
}
