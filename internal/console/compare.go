package console

import (
	"context"
	"strings"

	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/internal/history"
)

// compareView is the page of two runs, call by call.
type compareView struct {
	A, B   history.Run
	Equal  bool
	Rows   []history.DiffRow // at most rowsShown
	Of     int
	Values []valueDifference // at most rowsShown
	Shown  bool              // arguments and results may be shown
	Others []history.Run     // the newest other runs of the chain
	Flags  string
	Local  bool // the viewer can run commands beside this console
}

// valueDifference is a place where an argument or a result differs.
type valueDifference struct {
	At, Function, What string
	history.Difference
}

// othersShown is how many runs of the same chain the page offers.
const othersShown = 20

// showCompare compares a run with another one: that of the form, else the one before it of the same chain.
func showCompare(r *request) (*page, error) {
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	_, b, sees, err := r.readRun(ctx, r.decides())
	if err != nil {
		return nil, err
	}
	v := &compareView{B: b.Run, Shown: r.Values, Flags: r.Flags, Local: !r.Serves}
	if b.Chain != "" {
		runs, err := history.Runs(ctx, r.Journal, &journal.Filter{Callers: r.decides(), Scope: r.Scope, Chains: []string{b.Chain},
			Limit: othersShown})
		if err != nil {
			return nil, err
		}
		for i := range runs {
			if hideNames(&runs[i], sees); runs[i].ID != b.ID {
				v.Others = append(v.Others, runs[i])
			}
		}
	}
	with := strings.TrimSpace(r.URL.Query().Get("with"))
	for i := 0; with == "" && i < len(v.Others); i++ {
		if v.Others[i].Began.Before(b.Began) {
			with = v.Others[i].ID
		}
	}
	if with == "" {
		return v.page(), nil
	}
	past, err := r.read(ctx, with, r.decides())
	if err != nil {
		return nil, err
	}
	a := history.OfPast(past)
	hideCalls(a, sees)
	v.A = a.Run
	for _, t := range []*history.Timeline{a, b} {
		for i := range t.List {
			if r.Values && t.List[i].Function != "" {
				t.ShowCall(i, r.Scrubber)
			}
		}
	}
	v.add(history.Compare(a.Trace(), b.Trace()))
	return v.page(), nil
}

func (v *compareView) page() *page {
	return &page{template: "compare", title: "Compare " + v.B.ID, data: v}
}

// add adds what two runs did differently.
func (v *compareView) add(d *history.Diff) {
	v.Rows, v.Equal = d.Rows(), d.Equal
	v.Of = len(v.Rows)
	v.Rows = v.Rows[:min(v.Of, rowsShown)]
	for i := range d.Calls {
		p := &d.Calls[i]
		for _, values := range []struct {
			what string
			list []history.Difference
		}{{"args", p.Args}, {"result", p.Result}} {
			for _, difference := range values.list {
				if len(v.Values) < rowsShown {
					v.Values = append(v.Values, valueDifference{p.A.At, p.Function, values.what + difference.At, difference})
				}
			}
		}
	}
}
