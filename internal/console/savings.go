package console

import (
	"context"
	"html/template"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/draw"
	"github.com/onecall-mcp/onecall/internal/history"
	"github.com/onecall-mcp/onecall/steps"
)

// ranges are the numbers of days that savings are summed up for. The first one is shown unless the viewer chooses another.
var ranges = []int{30, 7, 90}

// savingsView is the page of savings.
type savingsView struct {
	Days   int // the range, in days up to today
	Ranges []int
	Total  history.Sum
	*history.Stats
	SavedByDay, KeptByDay template.HTML // pictures
	All                   bool          // the runs are of several callers
	Flags                 string        // see Backend.Flags
}

// showSavings sums up what the runs of the last days did and saved.
func showSavings(r *request) (*page, error) {
	if err := r.mustHaveJournal(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	v := &savingsView{Days: ranges[0], Ranges: slices.Sorted(slices.Values(ranges)), All: r.viewer.All, Flags: r.Flags}
	if asked := r.URL.Query().Get("days"); asked != "" {
		if v.Days, _ = strconv.Atoi(asked); !slices.Contains(ranges, v.Days) {
			return nil, fault.New(fault.BadRequest, "savings are summed up for 7, 30 or 90 days, not for %q", fault.Clip(asked, 20))
		}
	}
	sees, err := r.seesFunction()
	if err != nil {
		return nil, err
	}
	if v.Stats, err = history.StatsOf(ctx, r.Journal, r.lastDays(v.Days)); err != nil {
		return nil, err
	}
	v.hideNames(sees)
	for i := range v.Stats.Days {
		v.add(&v.Stats.Days[i])
	}
	slices.SortFunc(v.Stats.Days, func(a, b history.Sum) int { return strings.Compare(b.Name, a.Name) })
	v.SavedByDay = bars("Round trips saved by day", v.Stats.Days, func(s *history.Sum) int64 { return s.Saved })
	v.KeptByDay = bars("Tokens kept out by day", v.Stats.Days, func(s *history.Sum) int64 { return s.Stored })
	return &page{template: "savings", title: "Savings", data: v}, nil
}

// bars draws an amount of each sum.
func bars(title string, sums []history.Sum, amount func(*history.Sum) int64) template.HTML {
	b := &draw.Bars{Title: title}
	for i := range sums {
		b.Values = append(b.Values, draw.Value{Name: sums[i].Name, Amount: float64(amount(&sums[i]))})
	}
	return picture(b.SVG())
}

// lastDays is the filter of the runs of the last days that the viewer may see.
func (r *request) lastDays(days int) *journal.Filter {
	return &journal.Filter{Callers: r.own(), Since: time.Now().AddDate(0, 0, 1-days)}
}

// add adds a day to the total.
func (v *savingsView) add(day *history.Sum) {
	v.Total.Count += day.Count
	v.Total.Failures += day.Failures
	v.Total.Calls += day.Calls
	v.Total.Tokens += day.Tokens
	v.Total.Stored += day.Stored
	v.Total.Saved += day.Saved
}

// hideNames removes the names that the viewer may not know. The runs of a chain without its name remain: they are the viewer's own.
func (v *savingsView) hideNames(sees func(name string) bool) {
	hidden := func(name string) bool { return !sees(name) }
	v.Functions = slices.DeleteFunc(v.Functions, func(s history.Sum) bool { return hidden(s.Name) })
	for i := range v.Chains {
		if name := v.Chains[i].Name; strings.HasPrefix(name, steps.ChainSource+".") && hidden(name) {
			v.Chains[i].Name = ""
		}
	}
	for i := range v.WorthSaving {
		v.WorthSaving[i].Functions = slices.DeleteFunc(v.WorthSaving[i].Functions, hidden)
	}
}
