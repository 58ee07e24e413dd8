package peers

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/report"
	"github.com/onecall-mcp/onecall/bench/load"
	"github.com/onecall-mcp/onecall/internal/figure"
)

type column = report.Column[*running]

// report adds the tables and figures of an era, and says which arms were not measured or ended badly.
func (e *era) report(b *bench) {
	b.Tables = append(b.Tables, e.times(), e.details(), e.processes())
	b.Figure(e.figures(b.Short)...)
	for _, a := range e.arms {
		if a.fault != "" {
			b.Comment("%s (%s): %s", a.name, e.kind, a.fault)
		}
	}
	b.Comments = append(b.Comments, e.notFirst()...)
}

// words reports what does not depend on the upstream: the plot of both, and tokens.
func (b *bench) words(eras []*era) {
	ours := eras[0].arm("onecall")
	b.Tables = append(b.Tables, b.tokens(eras[0].arms))
	b.Plots = []report.Plot{plotOf(eras, workByKey("dependent10"))}
	b.Figure(report.TokenFigure("tokens/list", "onecall's tool list and instructions", b.Count(ours.list)),
		report.TokenFigure("tokens/dependent10", "the call of the tool chain that a model writes for 10 dependent calls",
			b.Count(string(ours.written(workByKey("dependent10"))))))
}

func nameOf(a *running) (string, string) { return a.name, "" }

// times returns the table with the median time of each arm at each piece of work.
func (e *era) times() report.Table {
	var columns []column
	for i := range works {
		columns = append(columns, column{Title: works[i].title, Cell: func(a *running) report.Cell {
			r, why := a.result(&works[i])
			if r == nil {
				return report.Text(why)
			}
			c := report.Of(r.medians, "ms")
			c.Value = report.Quantile(r.took, 0.5)
			return c
		}})
	}
	return report.TableOf("Median time, upstream "+e.kind, "", e.arms, nameOf, columns...)
}

// detail is an arm at a piece of work.
type detail struct {
	name, why string
	arm       *running
	*result
}

// details returns the table with a row for each piece of work and arm.
func (e *era) details() report.Table {
	var rows []detail
	for i := range works {
		for _, a := range e.arms {
			r, why := a.result(&works[i])
			rows = append(rows, detail{works[i].title + ": " + a.name, why, a, r})
		}
	}
	at := func(title string, q float64) report.Column[detail] {
		return report.Column[detail]{Title: title, Cell: func(d detail) report.Cell { return report.Value(report.Quantile(d.took, q), "ms") }}
	}
	return report.TableOf("In detail, upstream "+e.kind, "", rows, func(d detail) (string, string) { return d.name, d.why },
		at("p50", 0.5), at("p90", 0.9), at("p99", 0.99),
		report.Column[detail]{Title: "a second", Cell: func(d detail) report.Cell { return report.Of(d.rates, "") }},
		report.Column[detail]{Title: "CPU of the arm", Cell: func(d detail) report.Cell {
			if d.arm.process == nil {
				return report.Text("no process")
			}
			return report.Value(millis(d.cpu)/float64(len(d.took)), "ms")
		}},
		report.Column[detail]{Title: "CPU of the client", Cell: func(d detail) report.Cell {
			return report.Value(millis(d.clientCPU)/float64(len(d.took)), "ms")
		}},
		report.Column[detail]{Title: "times", Cell: func(d detail) report.Cell { return report.Count(len(d.took), "") }},
		report.Column[detail]{Title: "errors", Cell: func(d detail) report.Cell { return report.Count(d.errors, "") }})
}

// processes returns the table of what belongs to an arm as a whole.
func (e *era) processes() report.Table {
	used := func(title string, cell func(*running) report.Cell) column {
		return column{Title: title, Cell: func(a *running) report.Cell {
			if a.used.Processes == 0 {
				return report.None
			}
			return cell(a)
		}}
	}
	mb := func(bytes int64) report.Cell { return report.Value(float64(bytes)/1e6, "MB") }
	return report.TableOf("Processes, upstream "+e.kind, "", e.arms, nameOf,
		column{Title: "client's protocol", Cell: func(a *running) report.Cell { return report.Text(cmp.Or(a.protocol, "–")) }},
		used("resident memory at the end", func(a *running) report.Cell { return mb(a.used.Resident) }),
		used("of it pages of files", func(a *running) report.Cell { return mb(a.used.FromFiles) }),
		used("at most", func(a *running) report.Cell { return mb(a.used.Peak) }),
		used("processes", func(a *running) report.Cell { return report.Count(a.used.Processes, "") }),
		column{Title: "remark", Cell: func(a *running) report.Cell { return report.Text(cmp.Or(a.fault, "–")) }})
}

// tokens returns the table of what a model reads before it begins, and of what it writes for each piece of work.
func (b *bench) tokens(arms []*running) report.Table {
	columns := []column{
		{Title: "language", Cell: func(a *running) report.Cell { return report.Text(string(a.language)) }},
		{Title: "tool list", Cell: func(a *running) report.Cell {
			if a.list == "" {
				return report.None
			}
			return report.Count(b.Count(a.list), "tokens")
		}},
	}
	for i := range works {
		if w := &works[i]; w.clients == 0 {
			columns = append(columns, column{Title: w.title, Cell: func(a *running) report.Cell {
				if !a.can(w) {
					return report.None
				}
				return report.Count(b.Count(string(a.written(w))), "tokens")
			}})
		}
	}
	return report.TableOf("Tokens of the tool list with the server's instructions, and of the calls that the model writes", "", arms, nameOf,
		columns...)
}

// plotOf returns the plot with a bar for each arm's median time at w, in each era.
func plotOf(eras []*era, w *work) report.Plot {
	p := report.Plot{Name: "peers-" + w.key, Title: w.title + " over HTTP, median time", X: "ms"}
	for _, a := range arms {
		p.Bars = append(p.Bars, a.name)
	}
	for _, e := range eras {
		line := report.Line{Name: e.kind}
		for i, a := range e.arms {
			if r, _ := a.result(w); r != nil {
				line.Points = append(line.Points, [2]float64{float64(i), report.Quantile(r.took, 0.5)})
			}
		}
		p.Lines = append(p.Lines, line)
	}
	return p
}

// ratio is a figure: onecall's times at a piece of work to those of another arm, or its rates.
type ratio struct {
	work, title string
	to          string     // the key of the other arm; fastestPeer: the fastest of the others that run programs
	limits      [2]float64 // the project's own limits of the eras; 0: none, -1: there is no figure
	rates       bool
}

const fastestPeer = "fastest-peer"

// ratiosOf are the ratios. Against Cloudflare's code mode, which installs fast, there are some even if the fastest peer is missing.
var ratiosOf = []ratio{
	{"dependent10", "10 dependent calls, onecall's time to the bare client's", "bare", [2]float64{0.85, 1}, false},
	{"empty", "empty program, onecall's time to the fastest peer's", fastestPeer, [2]float64{0.8, 0.8}, false},
	{"noop10", "10 no-op steps, onecall's time to the fastest peer's", fastestPeer, [2]float64{0.1, 0.1}, false},
	{"dependent10", "10 dependent calls, onecall's time to the fastest peer's", fastestPeer, [2]float64{0.75, 0.15}, false},
	{"empty", "empty program, onecall's time to Cloudflare code mode's", "cloudflare", [2]float64{}, false},
	{"dependent10", "10 dependent calls, onecall's time to Cloudflare code mode's", "cloudflare", [2]float64{}, false},
	{"clients16", "16 clients, 10 dependent calls each: onecall's chains a second to the fastest peer's", fastestPeer,
		[2]float64{1.3, 1.3}, true},
	{"dependent10", "10 dependent calls, onecall's time to vMCP's", "vmcp", [2]float64{-1, 0.15}, false},
}

// figures returns onecall's ratios. The ratio of memory is only in the long form, because memory grows with the work. A figure against the
// fastest peer is left out unless all peers were measured: without the fastest, it would mean something else.
func (e *era) figures(short bool) (all []report.Figure) {
	add := func(work, to, title string, rounds []float64, least, most float64) {
		f := report.SpreadFigure(work+"/"+to+e.suffix, title+", upstream "+e.kind, rounds, "×")
		f.Min, f.Max, f.Why = least, most, cmp.Or(whyNot[f.Name], reasons[work])
		all = append(all, f)
	}
	ours, vmcp := e.arm("onecall"), e.arm("vmcp")
	for _, g := range ratiosOf {
		w, title, other := workByKey(g.work), g.title, e.arm(g.to)
		if g.to == fastestPeer {
			if other = e.fastest(w); other == nil {
				continue
			}
			title += " (" + other.name + ")"
		}
		a, _ := ours.result(w)
		b, _ := other.result(w)
		limit := g.limits[slices.Index([]string{load.WithoutSessions, load.WithSessions}, e.protocol)]
		switch {
		case a == nil || b == nil || limit < 0:
		case g.rates:
			add(g.work, g.to, title, ratios(a.rates, b.rates), limit, 0)
		default:
			add(g.work, g.to, title, ratios(a.medians, b.medians), 0, limit)
		}
	}
	if !short && vmcp.used.Resident > 0 && ours.used.Resident > 0 {
		share := float64(ours.used.Resident) / float64(vmcp.used.Resident)
		add("memory", "vmcp", "resident memory, onecall's to vMCP's", []float64{share}, 0, 0.55)
	}
	return all
}

// fastest returns the peer with the lowest median time at w; nil if onecall or a peer that can do this work was not measured.
func (e *era) fastest(w *work) (fastest *running) {
	var minimum float64
	for _, a := range e.arms {
		if a.language == oneByOne || !a.can(w) {
			continue
		}
		r, _ := a.result(w)
		if r == nil {
			return nil
		}
		if p50 := report.Quantile(r.took, 0.5); a.key != "onecall" && (fastest == nil || p50 < minimum) {
			fastest, minimum = a, p50
		}
	}
	return fastest
}

// notFirst says at which works another arm was faster than onecall, and why.
func (e *era) notFirst() (warnings []string) {
	for i := range works {
		w := &works[i]
		ours, _ := e.arm("onecall").result(w)
		first, minimum := "", 1.0 // the smallest share of onecall's time
		for _, a := range e.arms {
			if r, _ := a.result(w); r != nil && ours != nil {
				if share := report.Quantile(ratios(r.medians, ours.medians), 0.5); share < minimum {
					first, minimum = a.name, share
				}
			}
		}
		if first != "" {
			warnings = append(warnings, strings.TrimSpace(fmt.Sprintf("onecall is not first at “%s” (%s): %s takes %s of its time. %s",
				w.title, e.kind, first, figure.Text(minimum), reasons[w.key])))
		}
	}
	return warnings
}
