package peers

import (
	"slices"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/report"
	"github.com/onecall-mcp/onecall/budget"
)

// section returns the section with the results of the runs.
func (s *setup) section(runs []protocolRun, counter budget.Counter) *report.Section {
	section := &report.Section{
		Name: "peers", Title: "Beside what users would pick instead", Question: question,
		Command: "go -C bench/cmd/compare run . -only peers", Versions: s.versions(),
		Corpus: []string{corpus}, Comments: slices.Clone(comments),
	}
	for _, e := range runs {
		section.Tables = append(section.Tables, e.times(), e.details(), e.processes())
		section.Figures = append(section.Figures, e.figures(s.Short)...)
		section.Comments = slices.Concat(section.Comments, faultComments(&e), e.notFirst())
	}
	section.Tables = append(section.Tables, tokenTable(runs[0].arms, counter))
	section.Plots = []report.Plot{plotOf(runs, "dependent10")}
	section.Figures = append(section.Figures, tokenFigures(runs[0].arm("onecall"), counter)...)
	return section
}

// versions returns the versions of everything that takes part.
func (s *setup) versions() map[string]string {
	versions := map[string]string{vmcpPackage: vmcpVersion, "Node.js": s.nodeRelease()}
	for _, pkg := range []string{"@cloudflare/codemode", "@ai-sdk/code-mode", "@utcp/code-mode", "miniflare", "isolated-vm"} {
		versions[pkg] = s.nodeVersion(pkg)
	}
	versions[report.SDK] = report.SDKVersion()
	return versions
}

// upstreamKind describes the upstream of a run in the titles.
func (e *protocolRun) upstreamKind() string {
	if e.protocol == withSessions {
		return "with sessions (" + withSessions + ")"
	}
	return "stateless (" + stateless + ")"
}

// times returns the table with the median time of each arm at each piece of work.
func (e *protocolRun) times() report.Table {
	t := report.Table{Title: "Median time, upstream " + e.upstreamKind(), Columns: []string{""}}
	for _, w := range works {
		t.Columns = append(t.Columns, w.title)
	}
	for _, a := range e.arms {
		row := report.Row{Name: a.name}
		for i := range works {
			r, why := a.result(&works[i])
			if r == nil {
				row.Cells = append(row.Cells, report.Cell{Text: why})
				continue
			}
			row.Cells = append(row.Cells, report.Cell{
				Value: round(quantile(r.took, 0.5)), Unit: "ms", How: report.Measured,
				Low: round(quantile(r.medians, 0.1)), High: round(quantile(r.medians, 0.9)),
			})
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// details returns the table with a row for each piece of work and arm.
func (e *protocolRun) details() report.Table {
	t := report.Table{
		Title:   "In detail, upstream " + e.upstreamKind(),
		Columns: []string{"", "p50", "p90", "p99", "a second", "CPU of the arm", "CPU of the client", "times", "errors"},
	}
	for i := range works {
		w := &works[i]
		for _, a := range e.arms {
			r, why := a.result(w)
			row := report.Row{Name: w.title + ": " + a.name}
			if r == nil {
				row.Cells = slices.Repeat([]report.Cell{{Text: "–"}}, len(t.Columns)-1)
				row.Cells[0].Text = why
				t.Rows = append(t.Rows, row)
				continue
			}
			n := float64(len(r.took))
			ms := func(v float64) report.Cell { return report.Cell{Value: round(v), Unit: "ms", How: report.Measured} }
			count := func(n int) report.Cell { return report.Cell{Value: float64(n), How: report.Measured} }
			rate := report.Cell{
				Value: round(quantile(r.rates, 0.5)), How: report.Measured,
				Low: round(quantile(r.rates, 0.1)), High: round(quantile(r.rates, 0.9)),
			}
			cpu := ms(millis(r.cpu) / n)
			if a.process == nil {
				cpu = report.Cell{Text: "no process"}
			}
			row.Cells = []report.Cell{
				ms(quantile(r.took, 0.5)), ms(quantile(r.took, 0.9)), ms(quantile(r.took, 0.99)),
				rate, cpu, ms(millis(r.clientCPU) / n), count(len(r.took)), count(r.errors),
			}
			t.Rows = append(t.Rows, row)
		}
	}
	return t
}

// plotOf returns the plot with a bar for each arm's median time at the work with a key, in each run.
func plotOf(runs []protocolRun, key string) report.Plot {
	p := report.Plot{Name: "peers-" + key, Title: workByKey(key).title + " over HTTP, median time", X: "ms"}
	for _, peer := range peers {
		p.Bars = append(p.Bars, peer.name)
	}
	for _, e := range runs {
		line := report.Line{Name: e.upstreamKind()}
		for i, a := range e.arms {
			if r, _ := a.result(workByKey(key)); r != nil {
				line.Points = append(line.Points, [2]float64{float64(i), round(quantile(r.took, 0.5))})
			}
		}
		p.Lines = append(p.Lines, line)
	}
	return p
}

// processes returns the table of what belongs to an arm as a whole.
func (e *protocolRun) processes() report.Table {
	t := report.Table{
		Title:   "Processes, upstream " + e.upstreamKind(),
		Columns: []string{"", "client's protocol", "resident memory at the end", "of it pages of files", "at most", "processes", "remark"},
	}
	for _, a := range e.arms {
		mb := func(bytes int64) report.Cell {
			return report.Cell{Value: round(float64(bytes) / 1e6), Unit: "MB", How: report.Measured}
		}
		remark := "–"
		if a.fault != "" {
			remark = a.fault
		}
		row := report.Row{Name: a.name, Cells: []report.Cell{
			{Text: orDash(a.protocol)}, {Text: "–"}, {Text: "–"}, {Text: "–"}, {Text: "–"}, {Text: remark},
		}}
		if a.used.Processes > 0 {
			row.Cells[1], row.Cells[2], row.Cells[3] = mb(a.used.Resident), mb(a.used.FromFiles), mb(a.used.Peak)
			row.Cells[4] = report.Cell{Value: float64(a.used.Processes), How: report.Measured}
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

func orDash(text string) string {
	if text == "" {
		return "–"
	}
	return text
}

// tokenTable returns the table of what a model reads before it begins, and of what it writes for each piece of work.
func tokenTable(arms []*arm, counter budget.Counter) report.Table {
	t := report.Table{Title: "Tokens of the tool list with the server's instructions, and of the calls that the model writes",
		Columns: []string{"", "language", "tool list"}}
	for _, w := range works {
		if w.clients == 0 {
			t.Columns = append(t.Columns, w.title)
		}
	}
	tokens := func(text []byte) report.Cell {
		return report.Cell{Value: float64(counter.Count(text, -1)), Unit: "tokens", How: report.Measured}
	}
	for _, a := range arms {
		row := report.Row{Name: a.name, Cells: []report.Cell{{Text: string(a.language)}, {Text: "–"}}}
		if len(a.list) > 0 {
			row.Cells[1] = tokens([]byte(a.list))
		}
		for i := range works {
			switch w := &works[i]; {
			case w.clients > 0:
			case !a.can(w):
				row.Cells = append(row.Cells, report.Cell{Text: "–"})
			default:
				row.Cells = append(row.Cells, tokens(a.writtenCalls(w)))
			}
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// result returns what was measured of the arm at w, or nil and the reason why there is nothing.
func (a *arm) result(w *work) (r *result, why string) {
	switch r = a.results[w.key]; {
	case r != nil && len(r.took) > 0 && r.inRow < maxErrors:
		return r, ""
	case r != nil && r.fault != "":
		return nil, "failed: " + r.fault
	case a.fault != "":
		return nil, "not measured"
	default:
		return nil, "–"
	}
}
