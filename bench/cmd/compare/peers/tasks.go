package peers

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/harness"
	"github.com/onecall-mcp/onecall/bench/cmd/compare/proc"
	"github.com/onecall-mcp/onecall/bench/cmd/compare/report"
)

// Tasks is the section of tasks that use two real servers. For each arm they are written as a model would write them.
var Tasks = harness.Section{
	Name: "tasks", Title: "Tasks: calls one by one, a chain, code modes", Long: 1, Short: 1,
	Question: `How many tokens and round trips does a model need for the same tasks, and what does each way report after a
failure half-way and after a mistake? Over stdio, with two real MCP servers. The files that were written and the answers are checked.`,
	Corpus: []string{"`server-filesystem` and `server-memory` (23 tools); the programs are in bench/cmd/compare/peers/node/tasks.mjs"},
	Comments: []string{
		"Cloudflare's worker cannot start processes: its calls take one more hop over HTTP than those of the other arms.",
		"What a model writes is counted as calls: a name, and arguments, which hold the chain or the program's text.",
		"onecall's model reads and writes more for this one task than a code mode's: it searches first, as its list does not " +
			"have the functions. The code modes list the types of all tools instead, which only pays with few tools.",
		"“By place” means that the answer gives the positions in a list of what was written, not the names of the files: a model that has " +
			"not read the list cannot tell which they are.",
		"A call through onecall passes one more process than a bare call, and onecall keeps a record of the run.",
	},
	Parts: []harness.Part{{Name: "tasks", Measure: tasks}},
}

// taskArm is an arm of the tasks, with its results. A fault says why there are none.
type taskArm struct {
	key, name, npm string
	Task           struct {
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

// taskArms returns the arms of the tasks, in the order of the tables.
func taskArms() []*taskArm {
	return []*taskArm{
		{key: "bare", name: "bare MCP", npm: "@modelcontextprotocol/sdk"},
		{key: "onecall", name: "onecall"},
		{key: "cloudflare", name: "Cloudflare code mode", npm: "@cloudflare/codemode"},
		{key: "aiSDK", name: "AI SDK code mode", npm: "@ai-sdk/code-mode"},
		{key: "utcp", name: "UTCP code mode", npm: "@utcp/code-mode"},
	}
}

// tasks runs the Node.js program that does all tasks with all arms, and reports its results.
func tasks(ctx context.Context, b *harness.Bench) error {
	onecall, err := b.Onecall(ctx)
	if err != nil {
		return err
	}
	node, err := b.Node(ctx, "bench/cmd/compare/peers/node")
	if err != nil {
		return err
	}
	rounds := 200
	if b.Short {
		rounds = 30
	}
	file := filepath.Join(b.Temp, "tasks.json")
	_, ended := proc.Run(ctx, node.Command("measure.mjs", onecall, strconv.Itoa(rounds), file), 15*time.Minute)
	text, err := os.ReadFile(file) // written last: if it is missing, ended says why
	if err != nil {
		return cmp.Or(ended, err)
	}
	if ended != nil {
		b.Comment("At the end of the measurement: %s", harness.OneLine(ended))
	}
	b.Versions["Node.js"] = harness.Release(node.Binary())
	for _, pkg := range []string{"@modelcontextprotocol/server-filesystem", "@modelcontextprotocol/server-memory", "miniflare", "isolated-vm"} {
		b.Versions[pkg] = node.Version(pkg)
	}
	arms := taskArms()
	for _, a := range arms {
		if a.npm != "" {
			b.Versions[a.npm] = node.Version(a.npm)
			a.name += " (`" + a.npm + "` " + node.Version(a.npm) + ")"
		}
	}
	return reportTasks(b, arms, text, rounds)
}

// reportTasks adds the tables and figures of the program's output. It is an error if onecall has not done all tasks.
func reportTasks(b *harness.Bench, arms []*taskArm, output []byte, rounds int) error {
	var results struct{ Arms map[string]json.RawMessage }
	if err := json.Unmarshal(output, &results); err != nil {
		return err
	}
	for _, a := range arms {
		a.Task.Fault, a.Failure.Fault, a.Dependent.Fault = "not measured", "not measured", "not measured"
		if text := results.Arms[a.key]; text != nil {
			a.Task.Fault, a.Failure.Fault, a.Dependent.Fault = "", "", ""
			if err := json.Unmarshal(text, a); err != nil {
				return err
			}
		}
	}
	bare, ours := arms[0], arms[1]
	if fault := cmp.Or(ours.Task.Fault, ours.Failure.Fault, ours.Mistake.Fault, ours.Dependent.Fault); fault != "" {
		return fmt.Errorf("onecall failed: %s", fault)
	}
	type column = report.Column[*taskArm]
	count := func(title, unit string, of func(*taskArm) int) column {
		return column{Title: title, Cell: func(a *taskArm) report.Cell { return report.Count(of(a), unit) }}
	}
	text := func(title string, of func(*taskArm) string) column {
		return column{Title: title, Cell: func(a *taskArm) report.Cell { return report.Text(of(a)) }}
	}
	table := func(title string, fault func(*taskArm) string, columns ...column) {
		b.Tables = append(b.Tables, report.TableOf(title, "", arms, func(a *taskArm) (string, string) {
			return a.name, failed(fault(a))
		}, columns...))
	}
	table("Tokens and round trips", func(a *taskArm) string { return a.Task.Fault },
		count("tools, at the start", "tokens", func(a *taskArm) int { return a.Task.List }),
		count("round trips", "", func(a *taskArm) int { return a.Task.RoundTrips }),
		count("side by side, at least", "", func(a *taskArm) int { return a.Task.SideBySide }),
		count("written", "tokens", func(a *taskArm) int { return a.Task.Wrote }),
		count("read", "tokens", func(a *taskArm) int { return a.Task.Read }))
	table("A failure half-way, and a mistake", func(a *taskArm) string { return a.Failure.Fault },
		text("reported as a failure", func(a *taskArm) string { return yesNo(!a.Failure.OK) }),
		text("names the failed file", func(a *taskArm) string { return yesNo(a.Failure.SaysWhere) }),
		text("says what was written", func(a *taskArm) string { return a.Failure.SaysWhatWasWritten }),
		text("files written again", func(a *taskArm) string { return fmt.Sprintf("%d of %d", a.Failure.WrittenAgain, a.Failure.Files) }),
		text("files written before the misspelled tool is noticed", func(a *taskArm) string {
			return cmp.Or(failed(a.Mistake.Fault), fmt.Sprintf("%d of 10", a.Mistake.Files))
		}))
	table("Time over stdio", func(a *taskArm) string { return a.Dependent.Fault },
		column{Title: fmt.Sprintf("fastest of %d rounds", rounds), Cell: func(a *taskArm) report.Cell { return report.Value(a.Dependent.Fastest, "ms") }},
		column{Title: "against bare MCP", Cell: func(a *taskArm) report.Cell {
			if bare.Dependent.Fastest == 0 {
				return report.None
			}
			return report.Value(a.Dependent.Fastest/bare.Dependent.Fastest, "×").Computed()
		}},
		column{Title: "median", Cell: func(a *taskArm) report.Cell { return report.Value(a.Dependent.Median, "ms") }})
	told := 0
	for _, tells := range []bool{!ours.Failure.OK, ours.Failure.SaysWhere, ours.Failure.SaysWhatWasWritten != "no"} {
		if tells {
			told++
		}
	}
	b.Figure(report.TokenFigure("tokens/onecall", "the task of ten hosts: tokens of onecall's tool list, and of all that the model writes and reads",
		ours.Task.List+ours.Task.Wrote+ours.Task.Read),
		report.Figure{Name: "failure/told", Title: "after a failure half-way, how many of three things onecall tells: that it failed, at which " +
			"file, and what was written, by name or by place", Value: float64(told), How: report.Measured, Min: 3},
		report.CountFigure("failure/written-again", "a failure half-way: files that onecall writes again", ours.Failure.WrittenAgain),
		report.CountFigure("mistake/files", "a misspelled tool: files that onecall writes before it is noticed", ours.Mistake.Files))
	if bare.Dependent.Fastest > 0 {
		b.Figure(report.RatioFigure("stdio/bare", "ten dependent calls over stdio, the fastest round: onecall's time to bare MCP's",
			ours.Dependent.Fastest, bare.Dependent.Fastest))
	}
	return nil
}

// failed returns what a table says of a fault; "" without one.
func failed(fault string) string {
	if fault == "" {
		return ""
	}
	return "failed: " + harness.OneLine(errors.New(fault))
}

func yesNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}
