// Package faults lets one fault strike in each run of a task, and asks what became of it: whether a write was made twice or lost, and
// whether the run could go on. The answers come from the log of the upstream, not from the systems.
package faults

import (
	"context"
	_ "embed"
	"math/rand/v2"

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
	ours      bool // it must have no write twice, lost or told wrongly, and no run that does not go on
	most      int  // the maximum number of its runs, as it starts slowly; 0: no maximum
}

// arms lists the arms in the order of the table. One more is a file with a system, and a line here.
var arms = []arm{
	{key: "serve", name: "onecall serve", open: openServed, ours: true},
	{key: "run", name: "onecall run", open: openRan, ours: true},
	{key: "loop", name: "SDK client in a loop", open: openLoop},
	{key: "cloudflare", name: "Cloudflare code mode", open: openCoded("cloudflare"), most: 200},
	{key: "vmcp", name: "vMCP code mode", open: openCoded("vmcp"), most: 200},
}

// seed makes the trials the same ones each time.
const seed = 17

// result is what became of an arm's trials.
type result struct {
	arm
	trials, twice, lost, wrong, asks, stuck int
	kinds                                   map[string]int // trials by kind of fault
	fault                                   string         // why it was not measured
	why                                     []string       // the first things that went wrong
}

func measure(ctx context.Context, b *harness.Bench) {
	n := b.Faults
	if b.Short {
		n = min(n, 50)
	}
	b.Versions[report.SDK] = report.SDKVersion()
	var results []*result
	for _, a := range arms {
		results = append(results, a.measure(ctx, b, n))
	}
	tell(b, results)
}

// measure lets n faults strike an arm.
func (a arm) measure(ctx context.Context, b *harness.Bench, n int) *result {
	if a.most > 0 {
		n = min(n, a.most)
	}
	b.Log("%d faults: %s", n, a.name)
	r := &result{arm: a, kinds: map[string]int{}}
	err := harness.Try(func() {
		u := newUpstream()
		defer u.crash()
		s := a.open(ctx, b, u)
		defer s.close()
		var possible []*kind
		for i := range kinds {
			if kinds[i].needs == nil || kinds[i].needs(s) {
				possible = append(possible, &kinds[i])
			}
		}
		random := rand.New(rand.NewPCG(seed, 0))
		for i := range n {
			t := draw(random, i, s, u, possible)
			r.add(t, t.play(ctx))
			harness.Check(ctx.Err())
		}
	})
	if err != nil {
		harness.FailIf(a.ours || ctx.Err() != nil, "%s: %w", a.name, err)
		r.fault = harness.OneLine(err)
	}
	return r
}

// shown is how many things that went wrong are told of an arm.
const shown = 3

func (r *result) add(t *trial, s score) {
	r.trials++
	r.kinds[t.fault.kind.name]++
	r.twice += s.twice
	r.lost += s.lost
	r.wrong += s.wrong
	r.asks += s.asks
	if s.stuck {
		r.stuck++
	}
	if s.why != "" && len(r.why) < shown {
		r.why = append(r.why, s.why)
	}
}

// counts are what is counted of an arm, in the order of the table.
var counts = []struct {
	key, title string
	of         func(*result) int
}{
	{"runs", "runs, each with a fault", func(r *result) int { return r.trials }},
	{"twice", "writes made twice", func(r *result) int { return r.twice }},
	{"lost", "writes lost", func(r *result) int { return r.lost }},
	{"wrong", "outcomes told wrongly", func(r *result) int { return r.wrong }},
	{"stuck", "runs that do not go on", func(r *result) int { return r.stuck }},
	{"asks", "outcomes looked up", func(r *result) int { return r.asks }},
}

// tell adds the table, its picture and the figures. onecall must have made no mistake.
func tell(b *harness.Bench, results []*result) {
	var columns []report.Column[*result]
	plot := report.Plot{Name: "faults", Title: "Of 1,000 runs with a fault each", X: "writes made twice"}
	line := report.Line{Name: "made twice"}
	for _, c := range counts {
		columns = append(columns, report.Column[*result]{Title: c.title, Cell: func(r *result) report.Cell { return report.Count(c.of(r), "") }})
	}
	for _, r := range results {
		if r.fault != "" {
			continue
		}
		line.Points = append(line.Points, [2]float64{float64(len(plot.Bars)), float64(1000*r.twice) / float64(r.trials)})
		plot.Bars = append(plot.Bars, r.name)
		for _, c := range counts {
			b.Figure(report.CountFigure(r.key+"/"+c.key, r.name+": "+c.title, c.of(r)))
		}
		for _, why := range r.why {
			b.Comment("%s: %s", r.name, why)
		}
		harness.FailIf(r.ours && r.twice+r.lost+r.wrong+r.stuck > 0, "%s: %d writes twice, %d lost, %d outcomes wrong, %d runs stuck: %q",
			r.name, r.twice, r.lost, r.wrong, r.stuck, r.why)
	}
	plot.Lines = []report.Line{line}
	b.Plots = append(b.Plots, plot)
	b.Tables = append(b.Tables, report.TableOf("Faults in the middle of runs", "system", results,
		func(r *result) (string, string) { return r.name, r.fault }, columns...))
}
