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

	"github.com/onecall-mcp/onecall/bench/cmd/compare/install"
	"github.com/onecall-mcp/onecall/bench/cmd/compare/report"
	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/internal/app"
	"github.com/onecall-mcp/onecall/internal/rawjson"
	"github.com/onecall-mcp/onecall/internal/tally"
)

// brokenChain is a chain with one wrong step, whose arguments misspell a folder.
type brokenChain struct {
	title       string
	prefix      string // starts the names of its figures
	steps       []map[string]any
	wrongStep   int            // an index in steps
	correctStep map[string]any // replaces the wrong step
	wantFiles   int            // the files that the chain writes
	wantCalls   int            // the calls of a run without a failure
}

const filesystemPackage = "@modelcontextprotocol/server-filesystem"

// repairs measures failed chains and their repair, with the filesystem MCP server from npm. If that cannot be installed, s gets a comment.
func repairs(ctx context.Context, o *report.Options, counter budget.Counter, s *report.Section) error {
	packages, err := install.NewPackages(o, s)
	if err != nil {
		return err
	}
	if err := packages.Install(ctx, filesystemPackage); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		s.Comments = append(s.Comments, "The repair of a failed chain is not measured: "+filesystemPackage+" could not be installed here.")
		o.Log("   %v", err)
		return nil
	}
	folder, err := packages.Folder(filesystemPackage)
	if err != nil {
		return err
	}
	server := filepath.Join(folder, "dist/index.js")
	t := report.Table{Title: "A chain that failed, and its repair",
		Columns: []string{"way to finish the chain", "round trips", "tokens written", "tokens read", "calls made", "writes made twice"}}
	for _, b := range []*brokenChain{hostFiles(), manySteps()} {
		r := &repair{brokenChain: b, server: server, counter: counter}
		resumed, restarted, single, err := r.measure(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", b.title, err)
		}
		for _, way := range []struct {
			name string
			cost *repairCost
		}{{"chain, then resume", resumed}, {"chain, then the whole corrected chain", restarted}, {"calls one by one", single}} {
			c := way.cost
			t.Rows = append(t.Rows, report.Counts(b.title+": "+way.name, c.RoundTrips, c.Written, c.Read, c.calls, c.repeatedWrites))
		}
		s.Figures = append(s.Figures,
			report.CountFigure(b.prefix+"/resume/tokens", b.title+", failed and resumed: tokens read and written",
				resumed.Written+resumed.Read),
			report.CountFigure(b.prefix+"/again/tokens", b.title+", failed and started again: tokens read and written",
				restarted.Written+restarted.Read),
			report.CountFigure(b.prefix+"/resume/calls", b.title+", failed and resumed: calls made", resumed.calls),
			report.CountFigure(b.prefix+"/again/calls", b.title+", failed and started again: calls made", restarted.calls))
	}
	s.Tables = append(s.Tables, t)
	s.Comments = append(s.Comments, "When a chain fails, its answer reports what was written so far and how to resume; that is most of what "+
		"the model reads. Running the whole corrected chain reads about as much, but makes all calls again. Here that only overwrites files; "+
		"a call that creates or pays for something would do so twice. Independent calls, made one by one, could be sent side by side "+
		"instead, in fewer round trips.")
	return nil
}

// hostFiles returns a chain of four steps that writes a file for each host in a list, and an index of the hosts.
func hostFiles() *brokenChain {
	index := map[string]any{"id": "all", "fn": "files.write_file", "args": map[string]any{"path": "lists/all.txt", "content": "10 hosts\n"}}
	conf := map[string]any{"path": "conf/${$item.name}.conf", "content": "address ${$item.ip}\nrole ${$item.role}\n"}
	b := &brokenChain{title: "Files of ten hosts, 4 steps", prefix: "repair/hosts", correctStep: index, wrongStep: 3, wantFiles: 11,
		wantCalls: 12}
	b.steps = []map[string]any{
		{"fn": "files.read_text_file", "args": map[string]any{"path": "hosts.json"}},
		{"id": "hosts", "expr": "fromJSON($0.content)"},
		{"fn": "files.write_file", "forEach": "$hosts", "args": conf},
		misspellFolder(index),
	}
	return b
}

// manySteps returns a chain that writes thirty files, one per step.
func manySteps() *brokenChain {
	b := &brokenChain{title: "Thirty files, 30 steps", prefix: "repair/steps", wrongStep: 24, wantFiles: 30, wantCalls: 30}
	for i := range 30 {
		args := map[string]any{"path": fmt.Sprintf("lists/part-%d.txt", i), "content": fmt.Sprintf("part %d of 30\n", i)}
		step := map[string]any{"fn": "files.write_file", "args": args}
		if i == b.wrongStep {
			b.correctStep, step = step, misspellFolder(step)
		}
		b.steps = append(b.steps, step)
	}
	return b
}

// misspellFolder returns a copy of step whose folder does not exist.
func misspellFolder(step map[string]any) map[string]any {
	text, _ := rawjson.Marshal(step) // cannot fail for the steps of this file
	var wrong map[string]any
	_ = json.Unmarshal(bytes.Replace(text, []byte("lists/"), []byte("listss/"), 1), &wrong)
	return wrong
}

// chain returns the request of the chain, with the wrong step or the corrected one.
func (b *brokenChain) chain(corrected bool) ([]byte, error) {
	list := slices.Clone(b.steps)
	if corrected {
		list[b.wrongStep] = b.correctStep
	}
	return rawjson.Marshal(map[string]any{"steps": list, "lite": true})
}

// wrongID returns the key of the wrong step in a resume's replace: its id, or its index if it has none.
func (b *brokenChain) wrongID() string {
	if id, ok := b.correctStep["id"].(string); ok {
		return id
	}
	return fmt.Sprint(b.wrongStep)
}

// repairCost is the cost of one way to repair the chain, including the failure.
type repairCost struct {
	tally.Side
	calls          int // calls to the server, including failed ones
	repeatedWrites int // successful writes among them that repeat an earlier one
}

// repair runs a broken chain in a temporary folder.
type repair struct {
	*brokenChain
	server  string // the path of the MCP server's script
	counter budget.Counter

	// failAndRepair sets these each time.
	folder string
	app    *app.App
	*callRecorder
}

// measure returns the cost of three ways to finish the chain: resume it after the failure, run the whole corrected chain after it, or make
// the calls one by one. The third is computed from the calls of the first.
func (r *repair) measure(ctx context.Context) (resumed, restarted, single *repairCost, err error) {
	corrected, err := r.chain(true)
	if err != nil {
		return nil, nil, nil, err
	}
	resumed, err = r.failAndRepair(ctx, func(run string) ([]byte, error) {
		return rawjson.Marshal(map[string]any{"resume": run, "replace": map[string]any{r.wrongID(): r.correctStep}, "lite": true})
	})
	if err != nil {
		return nil, nil, nil, err
	}
	// A model that makes one call at a time would make these same calls: it sees the failure, corrects that call and continues.
	single = &repairCost{Side: tally.Calls(r.counter, r.scrubbedCalls()), calls: len(r.calls)}
	restarted, err = r.failAndRepair(ctx, func(string) ([]byte, error) { return corrected, nil })
	if err == nil && single.calls != r.wantCalls+1 {
		err = fmt.Errorf("the resumed chain made %d calls, want %d", single.calls, r.wantCalls+1)
	}
	return resumed, restarted, single, err
}

// failAndRepair runs the broken chain in a new folder, then the request that repairs it, and returns the cost of both. request returns that
// request for the id of the failed run.
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
		return nil, fmt.Errorf("the broken chain answered %s, want a failure with a run to resume", failed.JSON)
	}
	second, err := request(run)
	if err != nil {
		return nil, err
	}
	repaired := r.app.Run(ctx, second, nil)
	if !repaired.OK {
		return nil, fmt.Errorf("the repaired chain answered %s, want success", repaired.JSON)
	}
	if err := r.checkFiles(); err != nil {
		return nil, err
	}
	cost = &repairCost{Side: tally.Chain(r.counter, first, r.scrub(failed.JSON)), calls: len(r.calls)}
	cost.Add(tally.Chain(r.counter, second, r.scrub(repaired.JSON)))
	written := map[string]bool{}
	for i, call := range r.calls {
		if text := string(call.Args); call.Function == "files.write_file" && !r.failed[i] {
			if written[text] {
				cost.repeatedWrites++
			}
			written[text] = true
		}
	}
	return cost, nil
}

// open writes the list of hosts to the folder, and opens an app with an MCP server for the files of that folder.
func (r *repair) open(ctx context.Context) (err error) {
	if r.folder, err = filepath.EvalSymlinks(r.folder); err != nil { // the server reports paths without symbolic links
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

// checkFiles checks how many files the chain has written.
func (r *repair) checkFiles() error {
	n := 0
	for _, folder := range []string{"conf", "lists"} {
		files, err := os.ReadDir(filepath.Join(r.folder, folder))
		if err != nil {
			return err
		}
		n += len(files)
	}
	if n != r.wantFiles {
		return fmt.Errorf("the repaired chain left %d files, want %d", n, r.wantFiles)
	}
	return nil
}

// scrub replaces the folder's path, which differs in each run, so that the token counts do not.
func (r *repair) scrub(text []byte) []byte {
	return bytes.ReplaceAll(text, []byte(r.folder), []byte("/data"))
}

// scrubbedCalls returns the recorded calls with scrubbed results.
func (r *repair) scrubbedCalls() []tally.Call {
	list := slices.Clone(r.calls)
	for i := range list {
		list[i].Result = r.scrub(list[i].Result)
	}
	return list
}
