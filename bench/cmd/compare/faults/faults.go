// Package faults lets one fault strike in each run of a task, and asks what became of it: whether a write was made twice or lost, and
// whether the run could go on. The answers come from the log of the upstream, not from the systems.
package faults

import (
	"context"
	_ "embed"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/harness"
	"github.com/onecall-mcp/onecall/bench/cmd/compare/report"
)

//go:embed faults.md
var text string

// Section is the section of faults.
var Section = harness.Section{Name: "faults", Text: text, NoNode: true, Parts: []harness.Part{{Name: "faults", Measure: measure}}}

// arm is a system, and how it is started in front of an upstream.
type arm struct {
	key, name string
	open      func(context.Context, *harness.Bench, *upstream) system
	ours      bool   // it must have no write twice, lost or told wrongly, and no run that does not go on
	most      int    // the maximum number of its runs, as it starts slowly; 0: no maximum
	how       string // its settings, and what it documents for going on: a comment of the results
}

// arms are in the order of their files.
var arms []arm

// add adds an arm. The file of an arm calls it at the start, so that to add an arm is to add a file.
func add(a arm) { arms = append(arms, a) }

// chosen returns the arms with some keys, or all, in the order of the table: onecall first, then by name.
func chosen(keys []string) (some []arm) {
	var known []string
	for _, a := range arms {
		if known = append(known, a.key); len(keys) == 0 || slices.Contains(keys, a.key) {
			some = append(some, a)
		}
	}
	for _, key := range keys {
		harness.FailIf(!slices.Contains(known, key), "unknown arm %q: use %s", key, strings.Join(known, ", "))
	}
	slices.SortFunc(some, func(a, b arm) int {
		if a.ours != b.ours {
			return map[bool]int{true: -1, false: 1}[a.ours]
		}
		return strings.Compare(a.name, b.name)
	})
	return some
}

// slowShort is the maximum number of runs of an arm that starts slowly, in the short form.
const slowShort = 20

// seed makes the trials the same ones each time.
const seed = 17

// result is what became of an arm's trials.
type result struct {
	arm
	trials, twice, lost, wrong, stuck int
	asks, rewritten, alone            int      // outcomes looked up, programs rewritten, runs that needed neither
	fault                             string   // why it was not measured
	notes                             []string // what is said of it beside the numbers, such as the first things that went wrong
}

func measure(ctx context.Context, b *harness.Bench) {
	n := b.Faults
	if b.Short {
		n = min(n, 50)
	}
	b.Versions[report.SDK] = report.SDKVersion()
	var results []*result
	for _, a := range chosen(b.Arms) {
		results = append(results, a.measure(ctx, b, n))
	}
	tell(b, withKept(b, results))
}

// measure lets n faults strike an arm.
func (a arm) measure(ctx context.Context, b *harness.Bench, n int) *result {
	if a.most > 0 {
		n = min(n, a.most)
		if b.Short {
			n = min(n, slowShort)
		}
	}
	b.Log("%d faults: %s", n, a.name)
	r := &result{arm: a}
	err := harness.Try(func() {
		u := newUpstream()
		defer u.crash()
		s := a.open(ctx, b, u)
		defer s.close()
		began := time.Now()
		var possible []*kind
		for i := range kinds {
			if kinds[i].needs == nil || kinds[i].needs(s) {
				possible = append(possible, &kinds[i])
			}
		}
		random := rand.New(rand.NewPCG(seed, 0))
		for i := range n {
			t := draw(random, i, s, u, possible)
			r.add(t.play(ctx))
			harness.Check(ctx.Err())
		}
		b.Log("%s: %d faults in %.0f s", a.name, n, time.Since(began).Seconds())
	})
	if err != nil {
		harness.FailIf(a.ours && !errors.Is(err, harness.ErrNotHere) || ctx.Err() != nil, "%s: %w", a.name, err)
		r.fault = harness.OneLine(err)
	}
	return r
}

// shown is how many things that went wrong are told of an arm.
const shown = 3

func (r *result) add(s score) {
	r.trials++
	r.twice += s.twice
	r.lost += s.lost
	r.wrong += s.wrong
	r.asks += s.asks
	r.rewritten += s.rewritten
	switch {
	case s.stuck:
		r.stuck++
	case s.asks+s.rewritten == 0:
		r.alone++
	}
	if s.why != "" && len(r.notes) < shown {
		r.notes = append(r.notes, s.why)
	}
}

// counts are what is counted of an arm, in the order of the table.
var counts = []struct {
	key, title string
	of         func(*result) *int
}{
	{"runs", "runs, each with a fault", func(r *result) *int { return &r.trials }},
	{"twice", "writes made twice", func(r *result) *int { return &r.twice }},
	{"lost", "writes lost", func(r *result) *int { return &r.lost }},
	{"wrong", "outcomes told wrongly", func(r *result) *int { return &r.wrong }},
	{"stuck", "runs that do not go on", func(r *result) *int { return &r.stuck }},
	{"alone", "runs that go on by themselves", func(r *result) *int { return &r.alone }},
	{"asks", "outcomes looked up", func(r *result) *int { return &r.asks }},
	{"rewritten", "programs rewritten", func(r *result) *int { return &r.rewritten }},
}

// tell adds the table, its picture and the figures. onecall must have made no mistake.
func tell(b *harness.Bench, results []*result) {
	var columns []report.Column[*result]
	plot := report.Plot{Name: "faults", Title: "Of 1,000 runs with a fault each", X: "writes made twice"}
	line := report.Line{Name: "made twice"}
	for _, c := range counts {
		columns = append(columns, report.Column[*result]{Title: c.title, Cell: func(r *result) report.Cell { return report.Count(*c.of(r), "") }})
	}
	ours := 0
	for _, r := range results {
		if r.fault != "" {
			continue
		}
		if r.ours {
			ours += r.trials
		}
		line.Points = append(line.Points, [2]float64{float64(len(plot.Bars)), float64(1000*r.twice) / float64(r.trials)})
		plot.Bars = append(plot.Bars, r.name)
		for _, c := range counts {
			b.Figure(report.CountFigure(r.key+"/"+c.key, r.name+": "+c.title, *c.of(r)))
		}
		if r.how != "" {
			b.Comment("%s: %s.", r.name, r.how)
		}
		for _, note := range r.notes {
			b.Comment("%s: %s", r.name, note)
		}
		harness.FailIf(r.ours && r.twice+r.lost+r.wrong+r.stuck > 0, "%s: %d writes twice, %d lost, %d outcomes wrong, %d runs stuck: %q",
			r.name, r.twice, r.lost, r.wrong, r.stuck, r.notes)
	}
	b.Figure(report.CountFigure("onecall/runs", "onecall: runs, each with a fault", ours))
	plot.Lines = []report.Line{line}
	b.Plots = append(b.Plots, plot)
	b.Tables = append(b.Tables, report.TableOf("Faults in the middle of runs", "system", results,
		func(r *result) (string, string) { return r.name, r.fault }, columns...))
}
