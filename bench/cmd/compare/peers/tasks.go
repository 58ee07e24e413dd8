package peers

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/proc"
	"github.com/onecall-mcp/onecall/bench/cmd/compare/report"
)

// taskResults is the output of node/measure.mjs.
type taskResults struct {
	Node string
	Arms map[string]*armTasks
}

// armTasks holds the results of an arm. A fault says why there are none.
type armTasks struct {
	Task struct {
		Fault             string
		List, Wrote, Read int // tokens of the tool list, and of what the model writes and reads
		RoundTrips        int
		SideBySide        int // round trips, if calls that do not need one another are made at once
	}
	Failure struct {
		Fault               string
		OK                  bool   // the failure was not reported
		SaysWhere           bool   // the answer names the failed file
		SaysWhatWasWritten  string // "yes": the answer names the written files; "no"; or how it tells, such as "by place: 0-4"
		Files, WrittenAgain int    // files written before the failure, and how many of them the corrected program writes again
	}
	Mistake struct {
		Fault string
		Files int // files written before the mistake was noticed
	}
	Dependent struct {
		Fault           string
		Fastest, Median float64 // the times of dependent calls in milliseconds
	}
}

// taskArms are the arms of the tasks, in the order of the tables.
var taskArms = []struct{ key, name, npm string }{
	{"bare", "bare MCP", "@modelcontextprotocol/sdk"},
	{"onecall", "onecall", ""},
	{"cloudflare", "Cloudflare code mode", "@cloudflare/codemode"},
	{"aiSDK", "AI SDK code mode", "@ai-sdk/code-mode"},
	{"utcp", "UTCP code mode", "@utcp/code-mode"},
}

const tasksQuestion = `How many tokens and round trips does a model need for the same tasks, and what does each way report after a
failure half-way and after a mistake? Over stdio, with two real MCP servers. The files that were written and the answers are checked.`

// tasksComments explain how the arms differ.
var tasksComments = []string{
	"Cloudflare's worker cannot start processes: its calls take one more hop over HTTP than those of the other arms.",
	"What a model writes is counted as calls: a name, and arguments, which hold the chain or the program's text.",
	"onecall's model reads and writes more for this one task than a code mode's: it searches first, as its list does not " +
		"have the functions. The code modes list the types of all tools instead, which only pays with few tools.",
	"“By place” means that the answer gives the positions in a list of what was written, not the names of the files: a model that has " +
		"not read the list cannot tell which they are.",
	"A call through onecall passes one more process than a bare call, and onecall keeps a record of the run.",
}

// RunTasks measures tasks that use two real servers. For each arm they are written as a model would write them.
func RunTasks(ctx context.Context, o *report.Options) (*report.Section, error) {
	machine := report.ThisMachine()
	s, err := newSetup(o)
	if err != nil {
		return nil, err
	}
	defer s.close()
	if err := s.build(ctx, "onecall", ".", "./cmd/onecall"); err != nil {
		return nil, err
	}
	if err := s.installNode(ctx); err != nil {
		return nil, err
	}
	rounds := 200
	if o.Short {
		rounds = 30
	}
	file := filepath.Join(s.temp, "tasks.json")
	cmd := s.node("measure.mjs", s.bin("onecall"), strconv.Itoa(rounds), file)
	_, ended := proc.Run(ctx, cmd, 15*time.Minute)
	text, err := os.ReadFile(file) // written last: if it is missing, ended says why
	if err != nil {
		return nil, cmp.Or(ended, err)
	}
	var m taskResults
	if err := json.Unmarshal(text, &m); err != nil {
		return nil, err
	}
	if ours := m.Arms["onecall"]; ours == nil {
		return nil, errors.New("onecall was not measured")
	} else if fault := cmp.Or(ours.Task.Fault, ours.Failure.Fault, ours.Mistake.Fault, ours.Dependent.Fault); fault != "" {
		return nil, fmt.Errorf("onecall failed: %s", shorten(fault))
	}
	section := tasksSection(&m, rounds, s.nodeVersion)
	section.Machine = machine
	if ended != nil {
		section.Comments = append(section.Comments, "At the end of the measurement: "+oneLine(ended))
	}
	return section, nil
}

// tasksSection returns the tables and figures of the results. version returns the version of an npm package.
func tasksSection(m *taskResults, rounds int, version func(string) string) *report.Section {
	versions := map[string]string{"Node.js": m.Node}
	const servers = "@modelcontextprotocol/server-"
	for _, pkg := range []string{servers + "filesystem", servers + "memory", "miniflare", "isolated-vm"} {
		versions[pkg] = version(pkg)
	}
	for _, arm := range taskArms {
		if arm.npm != "" {
			versions[arm.npm] = version(arm.npm)
		}
	}
	section := &report.Section{
		Name: "tasks", Title: "Tasks: calls one by one, a chain, code modes", Question: tasksQuestion,
		Command: "go -C bench/cmd/compare run . -only tasks", Versions: versions,
		Corpus:   []string{"`server-filesystem` and `server-memory` (23 tools); the programs are in bench/cmd/compare/peers/node/tasks.mjs"},
		Comments: slices.Clone(tasksComments),
	}
	section.Tables = []report.Table{
		taskTable(m, version, "Tokens and round trips", []string{"tools, at the start", "round trips", "side by side, at least", "written",
			"read"}, (*armTasks).taskCells),
		taskTable(m, version, "A failure half-way, and a mistake", []string{
			"reported as a failure", "names the failed file", "says what was written",
			"files written again", "files written before the misspelled tool is noticed",
		}, (*armTasks).failureCells),
		taskTable(m, version, "Time over stdio", []string{fmt.Sprintf("fastest of %d rounds", rounds), "against bare MCP", "median"},
			func(a *armTasks) []report.Cell { return a.timeCells(m.Arms["bare"]) }),
	}
	section.Figures = m.figures()
	return section
}

// figures returns the figures of onecall, which must have done all tasks.
func (m *taskResults) figures() []report.Figure {
	ours := m.Arms["onecall"]
	answered := 0
	for _, isShown := range []bool{!ours.Failure.OK, ours.Failure.SaysWhere, ours.Failure.SaysWhatWasWritten != "no"} {
		if isShown {
			answered++
		}
	}
	figures := []report.Figure{
		{Name: "tokens/onecall", Title: "the task of ten hosts: tokens of onecall's tool list, and of all that the model writes and reads",
			Value: float64(ours.Task.List + ours.Task.Wrote + ours.Task.Read), Unit: "tokens", How: report.Measured},
		{Name: "failure/told", Title: "after a failure half-way, how many of three things onecall tells: that it failed, at which " +
			"file, and what was written, by name or by place",
			Value: float64(answered), How: report.Measured, Min: 3},
		report.CountFigure("failure/written-again", "a failure half-way: files that onecall writes again", ours.Failure.WrittenAgain),
		report.CountFigure("mistake/files", "a misspelled tool: files that onecall writes before it is noticed", ours.Mistake.Files),
	}
	if bare := m.Arms["bare"]; bare != nil && bare.Dependent.Fastest > 0 {
		figures = append(figures, report.Figure{Name: "stdio/bare",
			Title: "ten dependent calls over stdio, the fastest round: onecall's time to bare MCP's",
			Value: round(ours.Dependent.Fastest / bare.Dependent.Fastest), Unit: "×", How: report.Computed})
	}
	return figures
}

// taskTable returns a table with a row for each arm.
func taskTable(
	m *taskResults, version func(string) string, title string, columns []string, cells func(*armTasks) []report.Cell,
) report.Table {
	t := report.Table{Title: title, Columns: append([]string{""}, columns...)}
	for _, arm := range taskArms {
		name := arm.name
		if arm.npm != "" {
			name += " (`" + arm.npm + "` " + version(arm.npm) + ")"
		}
		a := m.Arms[arm.key]
		if a == nil {
			a = &armTasks{}
			a.Task.Fault, a.Failure.Fault, a.Dependent.Fault = "not measured", "not measured", "not measured"
		}
		row := cells(a)
		for len(row) < len(columns) { // after a fault
			row = append(row, report.Cell{Text: "–"})
		}
		t.Rows = append(t.Rows, report.Row{Name: name, Cells: row})
	}
	return t
}

func (a *armTasks) taskCells() []report.Cell {
	t := a.Task
	if t.Fault != "" {
		return failed(t.Fault)
	}
	tokens := func(n int) report.Cell { return report.Cell{Value: float64(n), Unit: "tokens", How: report.Measured} }
	return []report.Cell{tokens(t.List), report.Count(t.RoundTrips, ""), report.Count(t.SideBySide, ""), tokens(t.Wrote), tokens(t.Read)}
}

func (a *armTasks) failureCells() []report.Cell {
	f := a.Failure
	if f.Fault != "" {
		return failed(f.Fault)
	}
	yesNo := func(value bool) report.Cell {
		if value {
			return report.Cell{Text: "yes"}
		}
		return report.Cell{Text: "no"}
	}
	noticed := report.Cell{Text: fmt.Sprintf("%d of 10", a.Mistake.Files)}
	if a.Mistake.Fault != "" {
		noticed = failed(a.Mistake.Fault)[0]
	}
	writtenAgain := report.Cell{Text: fmt.Sprintf("%d of %d", f.WrittenAgain, f.Files)}
	return []report.Cell{yesNo(!f.OK), yesNo(f.SaysWhere), {Text: f.SaysWhatWasWritten}, writtenAgain, noticed}
}

func (a *armTasks) timeCells(bare *armTasks) []report.Cell {
	d := a.Dependent
	if d.Fault != "" {
		return failed(d.Fault)
	}
	ms := func(v float64) report.Cell { return report.Cell{Value: round(v), Unit: "ms", How: report.Measured} }
	against := report.Cell{Text: "–"}
	if bare != nil && bare.Dependent.Fastest > 0 {
		against = report.Cell{Value: round(d.Fastest / bare.Dependent.Fastest), Unit: "×", How: report.Computed}
	}
	return []report.Cell{ms(d.Fastest), against, ms(d.Median)}
}

func failed(why string) []report.Cell {
	return []report.Cell{{Text: "failed: " + shorten(why)}}
}
