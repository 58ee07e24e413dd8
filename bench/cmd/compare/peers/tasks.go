package peers

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/harness"
	"github.com/onecall-mcp/onecall/bench/cmd/compare/proc"
	"github.com/onecall-mcp/onecall/bench/cmd/compare/report"
)

//go:embed tasks.md
var tasksText string

// Tasks is the section of tasks that use two real servers. For each arm they are written as a model would write them.
var Tasks = harness.Section{Name: "tasks", Text: tasksText, Parts: []harness.Part{{Name: "tasks", Measure: tasks}}}

// taskArm is an arm of the tasks, with its results: what node/measure.mjs writes of it. A fault says why there are none.
type taskArm struct {
	key, name, npm string
	gjson.Result
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
func tasks(ctx context.Context, b *harness.Bench) {
	onecall, node := b.Onecall(ctx), b.Node(ctx, "bench/cmd/compare/peers/node")
	rounds := 200
	if b.Short {
		rounds = 30
	}
	file := filepath.Join(b.Temp, "tasks.json")
	_, ended := proc.Run(ctx, node.Command("measure.mjs", onecall, strconv.Itoa(rounds), file), 15*time.Minute)
	text, err := os.ReadFile(file) // written last: if it is missing, ended says why
	if err != nil {
		harness.Check(cmp.Or(ended, err))
	}
	if ended != nil {
		b.Comment("At the end of the measurement: %s", harness.OneLine(ended))
	}
	node.Note("@modelcontextprotocol/server-filesystem", "@modelcontextprotocol/server-memory", "miniflare", "isolated-vm")
	arms := taskArms()
	for _, a := range arms {
		if a.npm != "" {
			node.Note(a.npm)
			a.name += " (`" + a.npm + "` " + b.Versions[a.npm] + ")"
		}
	}
	reportTasks(b, arms, text, rounds)
}

// reportTasks adds the tables and figures of the program's output. onecall must have done all tasks.
func reportTasks(b *harness.Bench, arms []*taskArm, output []byte, rounds int) {
	for _, a := range arms {
		a.Result = gjson.GetBytes(output, "arms."+a.key)
	}
	bare, ours := arms[0], arms[1]
	for _, task := range []string{"task", "failure", "mistake", "dependent"} {
		harness.FailIf(ours.fault(task) != "", "onecall: %s", ours.fault(task))
	}
	type column = report.Column[*taskArm]
	number := func(title, path, unit string) column {
		return column{Title: title, Cell: func(a *taskArm) report.Cell { return report.Value(a.Get(path).Num, unit) }}
	}
	text := func(title string, of func(*taskArm) string) column {
		return column{Title: title, Cell: func(a *taskArm) report.Cell { return report.Text(of(a)) }}
	}
	table := func(title, task string, columns ...column) {
		b.Tables = append(b.Tables, report.TableOf(title, "", arms, func(a *taskArm) (string, string) { return a.name, a.fault(task) }, columns...))
	}
	table("Tokens and round trips", "task", number("tools, at the start", "task.list", "tokens"),
		number("round trips", "task.roundTrips", ""), number("side by side, at least", "task.sideBySide", ""),
		number("written", "task.wrote", "tokens"), number("read", "task.read", "tokens"))
	table("A failure half-way, and a mistake", "failure",
		text("reported as a failure", func(a *taskArm) string { return yesNo(!a.Get("failure.ok").Bool()) }),
		text("names the failed file", func(a *taskArm) string { return yesNo(a.Get("failure.saysWhere").Bool()) }),
		text("says what was written", func(a *taskArm) string { return a.Get("failure.saysWhatWasWritten").Str }),
		text("files written again", func(a *taskArm) string {
			return a.Get("failure.writtenAgain").Raw + " of " + a.Get("failure.files").Raw
		}),
		text("files written before the misspelled tool is noticed", func(a *taskArm) string {
			return cmp.Or(a.fault("mistake"), a.Get("mistake.files").Raw+" of 10")
		}))
	fastest := func(a *taskArm) float64 { return a.Get("dependent.fastest").Num }
	table("Time over stdio", "dependent", number(fmt.Sprintf("fastest of %d rounds", rounds), "dependent.fastest", "ms"),
		column{Title: "against bare MCP", Cell: func(a *taskArm) report.Cell {
			if bare.fault("dependent") != "" {
				return report.None
			}
			return report.Value(fastest(a)/fastest(bare), "×").Computed()
		}}, number("median", "dependent.median", "ms"))
	told := 0
	for _, tells := range []bool{!ours.Get("failure.ok").Bool(), ours.Get("failure.saysWhere").Bool(),
		ours.Get("failure.saysWhatWasWritten").Str != "no"} {
		if tells {
			told++
		}
	}
	count := func(path string) int { return int(ours.Get(path).Int()) }
	b.Figure(report.TokenFigure("tokens/onecall", "the task of ten hosts: tokens of onecall's tool list, and of all that the model writes and reads",
		count("task.list")+count("task.wrote")+count("task.read")),
		report.Figure{Name: "failure/told", Title: "after a failure half-way, how many of three things onecall tells: that it failed, at which " +
			"file, and what was written, by name or by place", Value: float64(told), How: report.Measured, Min: 3},
		report.CountFigure("failure/written-again", "a failure half-way: files that onecall writes again", count("failure.writtenAgain")),
		report.CountFigure("mistake/files", "a misspelled tool: files that onecall writes before it is noticed", count("mistake.files")))
	if bare.fault("dependent") == "" {
		b.Figure(report.RatioFigure("stdio/bare", "ten dependent calls over stdio, the fastest round: onecall's time to bare MCP's",
			fastest(ours), fastest(bare), 0))
	}
}

// fault returns what a table says of a task that the arm has not done; "": it has done it.
func (a *taskArm) fault(task string) string {
	fault := a.Get(task + ".fault").Str
	if !a.Get(task).Exists() {
		fault = "not measured"
	}
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
