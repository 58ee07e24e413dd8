package pipelines

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/report"
	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/internal/app"
	"github.com/onecall-mcp/onecall/internal/rawjson"
	"github.com/onecall-mcp/onecall/internal/tally"
)

// brokenChain is a chain with one wrong step: its folder is misspelled.
type brokenChain struct {
	title            string
	name             string // the beginning of the names of its figures
	steps            []map[string]any
	wrong            int // the step that is wrong
	right            map[string]any
	files, wantCalls int // files that exist afterwards, and calls of a run without an error
}

const filesystem = "@modelcontextprotocol/server-filesystem"

// repairs measures failed chains and their repair, with the file server from npm.
func repairs(ctx context.Context, o *report.Options, counter budget.Counter, s *report.Section) error {
	installed, err := install(ctx, o, s, "files", filesystem)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		s.Comments = append(s.Comments, "The repair of a failed chain is not measured, as "+filesystem+" did not install here.")
		o.Log("   %v", err)
		return nil
	}
	server := filepath.Join(installed, "node_modules", filesystem, "dist/index.js")
	t := report.Table{Title: "A chain that failed, and its repair",
		Columns: []string{"way to the end", "round trips", "written", "read", "calls made", "writes made twice"}}
	for _, b := range []*brokenChain{hostFiles(), manySteps()} {
		r := &repair{brokenChain: b, server: server, counter: counter}
		resumed, restarted, single, err := r.measure(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", b.title, err)
		}
		for _, w := range []struct {
			name string
			cost *repairCost
		}{{"chain, then resume", resumed}, {"chain, then the whole corrected chain", restarted}, {"calls one by one", single}} {
			c := w.cost
			t.Rows = append(t.Rows, report.Counts(b.title+": "+w.name, c.RoundTrips, c.Written, c.Read, c.calls, c.twice))
		}
		s.Figures = append(s.Figures,
			report.CountFigure(b.name+"/resume/tokens", b.title+", failed and resumed: tokens read and written", tokens(resumed.Side), 0.1),
			report.CountFigure(b.name+"/again/tokens", b.title+", failed and started again: tokens read and written", tokens(restarted.Side), 0),
			report.CountFigure(b.name+"/resume/calls", b.title+", failed and resumed: calls made", resumed.calls, exact),
			report.CountFigure(b.name+"/again/calls", b.title+", failed and started again: calls made", restarted.calls, 0))
	}
	s.Tables = append(s.Tables, t)
	s.Comments = append(s.Comments, "In the repair, a chain's failure tells what was written so far, and how to resume: that is most of what "+
		"is read. Starting again reads as little, and makes all calls again. Here a file is written over; where a call creates or pays, it is "+
		"done twice. Of calls one by one, those that are independent may be sent side by side, in fewer round trips.")
	return nil
}

// hostFiles returns a chain that writes a file for each host of a list and an index, in few steps.
func hostFiles() *brokenChain {
	index := map[string]any{"id": "all", "fn": "files.write_file", "args": map[string]any{"path": "lists/all.txt", "content": "10 hosts\n"}}
	conf := map[string]any{"path": "conf/${$item.name}.conf", "content": "address ${$item.ip}\nrole ${$item.role}\n"}
	b := &brokenChain{title: "Files of ten hosts, 4 steps", name: "repair/hosts", right: index, wrong: 3, files: 11, wantCalls: 12}
	b.steps = []map[string]any{
		{"fn": "files.read_text_file", "args": map[string]any{"path": "hosts.json"}},
		{"id": "hosts", "expr": "fromJSON($0.content)"},
		{"fn": "files.write_file", "forEach": "$hosts", "args": conf},
		misspelt(index),
	}
	return b
}

// manySteps returns a chain that writes thirty files, one in each step.
func manySteps() *brokenChain {
	b := &brokenChain{title: "Thirty files, 30 steps", name: "repair/steps", wrong: 24, files: 30, wantCalls: 30}
	for i := range 30 {
		args := map[string]any{"path": fmt.Sprintf("lists/part-%d.txt", i), "content": fmt.Sprintf("part %d of 30\n", i)}
		step := map[string]any{"fn": "files.write_file", "args": args}
		if i == b.wrong {
			b.right, step = step, misspelt(step)
		}
		b.steps = append(b.steps, step)
	}
	return b
}

// misspelt returns the step with a folder that does not exist.
func misspelt(step map[string]any) map[string]any {
	text, _ := rawjson.Marshal(step) // never fails for a step written here
	var wrong map[string]any
	_ = json.Unmarshal(bytes.Replace(text, []byte("lists/"), []byte("listss/"), 1), &wrong)
	return wrong
}

// chain returns the request, with the wrong step or the corrected one.
func (b *brokenChain) chain(corrected bool) ([]byte, error) {
	list := slices.Clone(b.steps)
	if corrected {
		list[b.wrong] = b.right
	}
	return rawjson.Marshal(map[string]any{"steps": list, "lite": true})
}

// wrongID returns the wrong step's id, or its index, by which resume names it.
func (b *brokenChain) wrongID() string {
	if id, ok := b.right["id"].(string); ok {
		return id
	}
	return fmt.Sprint(b.wrong)
}

// repairCost is the cost of one way to repair the chain, including the failure.
type repairCost struct {
	tally.Side
	calls int // calls that reached the server
	twice int // writes among them that had already succeeded
}

// repair runs a broken chain in a temporary folder.
type repair struct {
	*brokenChain
	server  string
	counter budget.Counter

	folder string
	app    *app.App
	*callRecorder
}

// measure repairs the chain both ways, and counts what single calls would have cost.
func (r *repair) measure(ctx context.Context) (resumed, restarted, single *repairCost, err error) {
	corrected, err := r.chain(true)
	if err != nil {
		return nil, nil, nil, err
	}
	resumed, err = r.failAndRepair(ctx, func(run string) ([]byte, error) {
		return rawjson.Marshal(map[string]any{"resume": run, "replace": map[string]any{r.wrongID(): r.right}, "lite": true})
	})
	if err != nil {
		return nil, nil, nil, err
	}
	// A model that makes the same calls one by one sees the failure and continues.
	single = &repairCost{Side: tally.Calls(r.counter, r.scrubbed()), calls: len(r.calls)}
	restarted, err = r.failAndRepair(ctx, func(string) ([]byte, error) { return corrected, nil })
	if err == nil && single.calls != r.wantCalls+1 {
		err = fmt.Errorf("the resumed chain made %d calls, want %d", single.calls, r.wantCalls+1)
	}
	return resumed, restarted, single, err
}

// failAndRepair runs the broken chain in a new folder, then the request that repairs it.
func (r *repair) failAndRepair(ctx context.Context, request func(run string) ([]byte, error)) (cost *repairCost, err error) {
	if r.folder, err = os.MkdirTemp("", "onecall-repair-"); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(r.folder)) }()
	if err := r.open(ctx); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.app.Close()) }()
	first, err := r.chain(false)
	if err != nil {
		return nil, err
	}
	failed := r.app.Run(ctx, first, nil)
	run := gjson.GetBytes(failed.JSON, "resume").Str
	if failed.OK || run == "" {
		return nil, fmt.Errorf("the broken chain answered %s", failed.JSON)
	}
	second, err := request(run)
	if err != nil {
		return nil, err
	}
	repaired := r.app.Run(ctx, second, nil)
	if !repaired.OK {
		return nil, fmt.Errorf("the repaired chain answered %s", repaired.JSON)
	}
	if err := r.check(); err != nil {
		return nil, err
	}
	cost = &repairCost{Side: tally.Chain(r.counter, first, r.scrub(failed.JSON)), calls: len(r.calls)}
	cost.Add(tally.Chain(r.counter, second, r.scrub(repaired.JSON)))
	written := map[string]bool{}
	for i, call := range r.calls {
		if text := string(call.Args); call.Function == "files.write_file" && !r.failed[i] {
			if written[text] {
				cost.twice++
			}
			written[text] = true
		}
	}
	return cost, nil
}

// open writes the list of hosts to the folder and opens an app whose server of files serves it.
func (r *repair) open(ctx context.Context) (err error) {
	if r.folder, err = filepath.EvalSymlinks(r.folder); err != nil { // the server reports this form of the path
		return err
	}
	var hosts []map[string]string
	for i := range 10 {
		hosts = append(hosts, map[string]string{"name": fmt.Sprintf("host-%d", i), "ip": fmt.Sprintf("192.0.2.%d", i), "role": "web"})
	}
	list, err := rawjson.Marshal(hosts)
	if err != nil {
		return err
	}
	config, err := rawjson.Marshal(map[string]any{"shapes": "off", "journal": map[string]any{"store": "memory"}, "mcpServers": map[string]any{
		"files": map[string]any{"command": "node", "args": []string{r.server, r.folder}, "cwd": r.folder}}})
	if err != nil {
		return err
	}
	for _, folder := range []string{"conf", "lists"} {
		if err := os.Mkdir(filepath.Join(r.folder, folder), 0o755); err != nil {
			return err
		}
	}
	for name, text := range map[string][]byte{"hosts.json": list, "onecall.json": config} {
		if err := os.WriteFile(filepath.Join(r.folder, name), text, 0o644); err != nil {
			return err
		}
	}
	r.callRecorder = &callRecorder{}
	r.app, err = openQuiet(ctx, &app.Options{Config: filepath.Join(r.folder, "onecall.json"), Calls: true, Observe: r.observe})
	return err
}

// check checks the number of files that the chain has written.
func (r *repair) check() error {
	n := 0
	for _, folder := range []string{"conf", "lists"} {
		files, err := os.ReadDir(filepath.Join(r.folder, folder))
		if err != nil {
			return err
		}
		n += len(files)
	}
	if n != r.files {
		return fmt.Errorf("%d files exist, want %d", n, r.files)
	}
	return nil
}

// scrub replaces the folder in a text: its name differs in each run.
func (r *repair) scrub(text []byte) []byte {
	return bytes.ReplaceAll(text, []byte(r.folder), []byte("/data"))
}

func (r *repair) scrubbed() []tally.Call {
	list := slices.Clone(r.calls)
	for i := range list {
		list[i].Result = r.scrub(list[i].Result)
	}
	return list
}
