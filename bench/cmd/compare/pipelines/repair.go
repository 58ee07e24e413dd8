package pipelines

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/harness"
	"github.com/onecall-mcp/onecall/bench/cmd/compare/report"
	"github.com/onecall-mcp/onecall/internal/rawjson"
	"github.com/onecall-mcp/onecall/internal/tally"
)

// brokenChain is a task: a chain with one wrong step, whose arguments misspell a folder.
type brokenChain struct {
	title       string
	prefix      string // starts the names of its figures
	steps       []map[string]any
	wrongStep   int            // an index in steps
	wrongID     string         // the key of the wrong step in a resume's replace: its id, or its index if it has none
	correctStep map[string]any // replaces the wrong step
	wantFiles   int            // the files that the chain writes
	wantCalls   int            // the calls of a run without a failure
}

const filesystemPackage = "@modelcontextprotocol/server-filesystem"

// repairs measures failed chains and their repair, with the filesystem MCP server from npm.
func repairs(ctx context.Context, b *harness.Bench) {
	b.Packages(ctx, filesystemPackage)
	server := filepath.Join(b.Package(filesystemPackage), "dist/index.js")
	var rows []*repair
	for _, c := range []*brokenChain{hostFiles(), manySteps()} {
		resumed := &repair{chain: c, way: "chain, then resume", key: "resume"}
		again := &repair{chain: c, way: "chain, then the whole corrected chain", key: "again"}
		harness.In(c.title, func() {
			resumed.run(ctx, b, server, marshal(map[string]any{"resume": "RUN", "replace": map[string]any{c.wrongID: c.correctStep}, "lite": true}))
			again.run(ctx, b, server, c.request(true))
		})
		// A model that makes one call at a time would make these same calls: it sees the failure, corrects that call and continues.
		single := &repair{chain: c, way: "calls one by one", cost: tally.Calls(b.Counter, resumed.calls), calls: resumed.calls}
		harness.FailIf(len(single.calls) != c.wantCalls+1,
			"%s: the resumed chain made %d calls, want %d", c.title, len(single.calls), c.wantCalls+1)
		rows = append(rows, resumed, again, single)
		for _, r := range rows[len(rows)-3:][:2] {
			how := map[string]string{"resume": ", failed and resumed", "again": ", failed and started again"}[r.key]
			b.Figure(report.CountFigure(c.prefix+"/"+r.key+"/tokens", c.title+how+": tokens read and written", r.cost.Written+r.cost.Read),
				report.CountFigure(c.prefix+"/"+r.key+"/calls", c.title+how+": calls made", len(r.calls)))
		}
	}
	type r = *repair
	b.Tables = append(b.Tables, report.TableOf("A chain that failed, and its repair", "way to finish the chain", rows,
		func(r r) (string, string) { return r.chain.title + ": " + r.way, "" },
		column("round trips", func(r r) int { return r.cost.RoundTrips }), column("tokens written", func(r r) int { return r.cost.Written }),
		column("tokens read", func(r r) int { return r.cost.Read }), column("calls made", func(r r) int { return len(r.calls) }),
		column("writes made twice", func(r r) int { return r.repeatedWrites })))
}

// hostFiles returns a chain of four steps that writes a file for each host in a list, and an index of the hosts.
func hostFiles() *brokenChain {
	index := map[string]any{"id": "all", "fn": "files.write_file", "args": map[string]any{"path": "lists/all.txt", "content": "10 hosts\n"}}
	conf := map[string]any{"path": "conf/${$item.name}.conf", "content": "address ${$item.ip}\nrole ${$item.role}\n"}
	return &brokenChain{title: "Files of ten hosts, 4 steps", prefix: "repair/hosts", correctStep: index, wrongStep: 3, wrongID: "all",
		wantFiles: 11, wantCalls: 12, steps: []map[string]any{
			{"fn": "files.read_text_file", "args": map[string]any{"path": "hosts.json"}},
			{"id": "hosts", "expr": "fromJSON($0.content)"},
			{"fn": "files.write_file", "forEach": "$hosts", "args": conf},
			misspellFolder(index),
		}}
}

// manySteps returns a chain that writes thirty files, one per step.
func manySteps() *brokenChain {
	c := &brokenChain{title: "Thirty files, 30 steps", prefix: "repair/steps", wrongStep: 24, wrongID: "24", wantFiles: 30, wantCalls: 30}
	for i := range 30 {
		args := map[string]any{"path": fmt.Sprintf("lists/part-%d.txt", i), "content": fmt.Sprintf("part %d of 30\n", i)}
		c.steps = append(c.steps, map[string]any{"fn": "files.write_file", "args": args})
	}
	c.correctStep = c.steps[c.wrongStep]
	c.steps[c.wrongStep] = misspellFolder(c.correctStep)
	return c
}

// misspellFolder returns a copy of step whose folder does not exist.
func misspellFolder(step map[string]any) (wrong map[string]any) {
	harness.Check(json.Unmarshal(bytes.Replace(marshal(step), []byte("lists/"), []byte("listss/"), 1), &wrong))
	return wrong
}

func marshal(value any) []byte { return harness.Must(rawjson.Marshal(value)) }

// request returns the request of the chain, with the wrong step or the corrected one.
func (c *brokenChain) request(corrected bool) []byte {
	list := slices.Clone(c.steps)
	if corrected {
		list[c.wrongStep] = c.correctStep
	}
	return marshal(map[string]any{"steps": list, "lite": true})
}

// repair is an arm: one way to finish a broken chain, and what that cost, including the failure.
type repair struct {
	chain    *brokenChain
	way, key string

	cost           tally.Side
	calls          []tally.Call // calls to the server, including failed ones
	repeatedWrites int          // successful writes among them that repeat an earlier one
}

// run runs the broken chain in a new folder, and then the request that repairs it, in which RUN stands for the id of the failed run.
func (r *repair) run(ctx context.Context, b *harness.Bench, server string, request []byte) {
	// The server reports paths without symbolic links.
	folder := harness.Must(filepath.EvalSymlinks(harness.Must(os.MkdirTemp(b.Temp, "repair"))))
	prepare(folder, server)
	a := openRecorded(ctx, filepath.Join(folder, "onecall.json"), "")
	defer a.Close()
	first := r.chain.request(false)
	failed := a.Run(ctx, first, nil)
	run := gjson.GetBytes(failed.JSON, "resume").Str
	harness.FailIf(failed.OK || run == "", "the broken chain answered %s, want a failure with a run to resume", failed.JSON)
	second := bytes.Replace(request, []byte("RUN"), []byte(run), 1)
	repaired := a.Run(ctx, second, nil)
	harness.FailIf(!repaired.OK, "the repaired chain answered %s, want success", repaired.JSON)
	if files := harness.Must(filepath.Glob(filepath.Join(folder, "*", "*"))); len(files) != r.chain.wantFiles {
		harness.Fail("the repaired chain left %d files, want %d", len(files), r.chain.wantFiles)
	}
	// The folder differs in each run, and token counts do not.
	scrub := func(text []byte) []byte { return bytes.ReplaceAll(text, []byte(folder), []byte("/data")) }
	r.cost = tally.Chain(b.Counter, first, scrub(failed.JSON))
	r.cost.Add(tally.Chain(b.Counter, second, scrub(repaired.JSON)))
	written := map[string]bool{}
	for i, call := range a.calls {
		if text := string(call.Args); call.Function == "files.write_file" && !a.failed[i] {
			if written[text] {
				r.repeatedWrites++
			}
			written[text] = true
		}
		call.Result = scrub(call.Result)
		r.calls = append(r.calls, call)
	}
}

// prepare writes the list of hosts to the folder, and a configuration with an MCP server, a script, for the files of that folder.
func prepare(folder, script string) {
	var hosts []map[string]string
	for i := range 10 {
		hosts = append(hosts, map[string]string{"name": fmt.Sprintf("host-%d", i), "ip": fmt.Sprintf("192.0.2.%d", i), "role": "web"})
	}
	server := map[string]any{"command": "node", "args": []string{script, folder}, "cwd": folder}
	harness.WriteFile(filepath.Join(folder, "hosts.json"), marshal(hosts))
	harness.WriteFile(filepath.Join(folder, "onecall.json"), marshal(map[string]any{"shapes": "off",
		"journal": map[string]any{"store": "memory"}, "mcpServers": map[string]any{"files": server}}))
	harness.Check(os.Mkdir(filepath.Join(folder, "conf"), 0o755))
	harness.Check(os.Mkdir(filepath.Join(folder, "lists"), 0o755))
}
