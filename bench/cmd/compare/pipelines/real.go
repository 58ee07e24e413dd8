package pipelines

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/harness"
	"github.com/onecall-mcp/onecall/bench/cmd/compare/report"
	"github.com/onecall-mcp/onecall/bench/datasets"
	"github.com/onecall-mcp/onecall/internal/figure"
	"github.com/onecall-mcp/onecall/internal/rawjson"
	"github.com/onecall-mcp/onecall/internal/tally"
)

// titles of the data sets, by their files.
var titles = map[string]string{
	"nestful_math": "NESTFUL", "taubench": "tau-bench", "bfcl_base": "BFCL base", "bfcl_long_context": "BFCL long context",
	"workbench": "WorkBench", "agentdojo_user": "AgentDojo",
}

// dataSet holds the costs of the chains of one data set, or of all.
type dataSet struct {
	title                 string
	tasks                 int        // dialogs count as one
	calls, chain          tally.Side // the costs of the calls one by one and of the lite chains
	sideBySide            int        // minimum number of round trips if independent calls are made side by side
	fullAnswer            int        // tokens of the chains' answers without lite
	program               int        // tokens of the programs
	programCall           int        // tokens of the calls that send the programs
	callTimes, chainTimes []float64  // milliseconds for all calls and for all chains, by round
}

// realChains measures the data sets, if they are here.
func realChains(ctx context.Context, b *harness.Bench) {
	rounds := 11
	if b.Short {
		rounds = 3
	}
	sum := newDataSet("all", rounds)
	var sets []*dataSet
	for _, name := range datasets.Names() {
		chains, err := datasets.Read(filepath.Join(b.Data, name+".jsonl"))
		if errors.Is(err, fs.ErrNotExist) {
			b.Comment("The data set %s is not on this machine, and not measured.", titles[name])
			continue
		}
		harness.Check(err)
		set := newDataSet(titles[name], rounds)
		for _, c := range chains {
			harness.In(name, func() { set.measure(ctx, b, c) })
		}
		sets = append(sets, set)
		sum.add(set)
	}
	harness.FailIf(len(sets) == 0, "%w", harness.ErrNotHere)
	b.Corpus = append(b.Corpus,
		fmt.Sprintf("%d tasks of NESTFUL, tau-bench, BFCL v4 (multi-turn base and long context), WorkBench and AgentDojo, replayed", sum.tasks))
	reportSets(b, append(sets, sum))
	if len(sets) == len(datasets.Names()) {
		sum.figures(b)
	}
}

func newDataSet(title string, rounds int) *dataSet {
	return &dataSet{title: title, callTimes: make([]float64, rounds), chainTimes: make([]float64, rounds)}
}

// add adds another data set.
func (d *dataSet) add(more *dataSet) {
	d.tasks += more.tasks
	d.sideBySide += more.sideBySide
	d.calls.Add(more.calls)
	d.chain.Add(more.chain)
	d.fullAnswer += more.fullAnswer
	d.program += more.program
	d.programCall += more.programCall
	for i := range d.callTimes {
		d.callTimes[i] += more.callTimes[i]
		d.chainTimes[i] += more.chainTimes[i]
	}
}

// measure counts and times a task: its turns, and the chains of each turn.
func (d *dataSet) measure(ctx context.Context, b *harness.Bench, task *datasets.Chain) {
	d.tasks++
	for _, turn := range harness.Must(task.Turns()) {
		d.sideBySide += sideBySide(turn.Steps)
		for _, part := range harness.Must(turn.Parts()) {
			harness.In(part.ID, func() {
				t := replay(part)
				t.count(ctx, b, d)
				for i := range d.callTimes {
					t.time(ctx, d, i)
				}
			})
		}
	}
}

// sentChain is a chain of a data set while it is measured.
type sentChain struct {
	*datasets.Chain
	calls  []tally.Call
	player *datasets.Player
	want   []byte // the answer that the chain must give
	fields string // what it has beside steps
}

func replay(c *datasets.Chain) *sentChain {
	t := &sentChain{Chain: c, calls: harness.Must(c.Calls())}
	t.want = rawjson.AppendCompact(nil, t.calls[len(t.calls)-1].Result)
	if len(c.Return) > 0 {
		var returned []string
		var results [][]byte
		for _, step := range c.Return {
			returned = append(returned, fmt.Sprintf(`"$%d"`, step))
			results = append(results, rawjson.AppendCompact(nil, t.calls[step].Result))
		}
		t.fields = `,"return":[` + strings.Join(returned, ",") + "]"
		t.want = fmt.Appendf(nil, "[%s]", bytes.Join(results, []byte(",")))
	}
	t.player = harness.Must(datasets.Replay(datasets.Recording(t.calls), nil))
	return t
}

// run runs the chain as a model sends it, with more fields.
func (t *sentChain) run(ctx context.Context, fields string) (request, answer []byte) {
	request = fmt.Appendf(nil, `{"steps":%s%s%s}`, datasets.Short(t.Steps), fields, t.fields)
	a := t.player.Engine.Run(t.player.Cassette.Cursor(ctx, ""), request, nil)
	harness.FailIf(!a.OK, "the chain failed: %s", a.JSON)
	return request, a.JSON
}

// lite asks for the shortest answer.
const lite = `,"lite":true`

// count counts round trips and tokens, and checks the answer.
func (t *sentChain) count(ctx context.Context, b *harness.Bench, d *dataSet) {
	request, answer := t.run(ctx, lite)
	_, full := t.run(ctx, "")
	harness.FailIf(!bytes.Equal(t.want, answer), "answered %s, want %s", answer, t.want)
	text := program(t.Steps, t.Return)
	code := harness.Must(rawjson.Marshal(map[string]string{"code": text}))
	d.calls.Add(tally.Calls(b.Counter, t.calls))
	d.chain.Add(tally.Chain(b.Counter, request, answer))
	d.fullAnswer += b.Counter.Count(full, -1)
	d.program += b.Counter.Count([]byte(text), -1)
	d.programCall += b.Counter.Count(tally.CallText("code", code), -1)
}

// time measures the calls and then the chain, each once, and adds the times to a round.
func (t *sentChain) time(ctx context.Context, d *dataSet, round int) {
	began := time.Now()
	cursor := t.player.Cassette.Cursor(ctx, "")
	for i := range t.calls {
		harness.Must(harness.Must(t.player.Functions.Resolve(t.calls[i].Function)).Call(cursor, t.calls[i].Args))
	}
	called := time.Now()
	t.run(ctx, lite)
	d.callTimes[round] += millis(called.Sub(began))
	d.chainTimes[round] += millis(time.Since(called))
}

func millis(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }

// way is one way to do the tasks: its round trips, and, by round, the time of all tasks together without the model.
type way struct {
	*dataSet
	name  string
	trips int
	times []float64
}

func (d *dataSet) ways() []way {
	return []way{
		{d, "calls one by one", d.calls.RoundTrips, d.callTimes},
		{d, "calls side by side, at least", d.sideBySide, d.callTimes},
		{d, "chains", d.chain.RoundTrips, d.chainTimes},
	}
}

// modelMillis are the assumed durations of a model's round trip, in milliseconds.
var modelMillis = []float64{0, 100, 1000, 3000}

// at returns the mean time of a task in milliseconds, if a round trip of the model takes that many. If the model takes no time, the cell is
// measured and has a spread, else it is computed.
func (w way) at(model float64) report.Cell {
	means := make([]float64, len(w.times))
	for i, all := range w.times {
		means[i] = all / float64(w.tasks)
	}
	c := report.Of(means, "ms")
	if model > 0 {
		c = report.Value(c.Value+float64(w.trips)*model/float64(w.tasks), "ms").Computed()
	}
	return c
}

// reportSets adds the tables of data sets, and the plot of the last one, which is their sum.
func reportSets(b *harness.Bench, sets []*dataSet) {
	name := func(d *dataSet) (string, string) { return d.title, "" }
	type d = *dataSet
	b.Tables = append(b.Tables,
		report.TableOf("Round trips of the model", "data set", sets, name,
			column("tasks", func(d d) int { return d.tasks }), column("calls one by one", func(d d) int { return d.calls.RoundTrips }),
			column("calls side by side, at least", func(d d) int { return d.sideBySide }),
			column("chains", func(d d) int { return d.chain.RoundTrips })),
		report.TableOf("Tokens that the model reads and writes", "data set", sets, name,
			column("read: calls", func(d d) int { return d.calls.Read }), column("read: chain, lite", func(d d) int { return d.chain.Read }),
			column("read: chain, with a report of each step", func(d d) int { return d.fullAnswer }),
			column("written: calls", func(d d) int { return d.calls.Written }), column("written: chain", func(d d) int { return d.chain.Written }),
			column("written: TypeScript", func(d d) int { return d.program }),
			column("in a tool's arguments", func(d d) int { return d.programCall }),
			report.Column[d]{Title: "read, lite against calls", Cell: func(d d) report.Cell {
				return report.Value(float64(d.chain.Read)/float64(d.calls.Read), "×").Computed()
			}}))
	var rows []way
	for _, d := range sets {
		rows = append(rows, d.ways()...)
	}
	columns := []report.Column[way]{{Title: "way", Cell: func(w way) report.Cell { return report.Text(w.name) }}}
	for _, model := range modelMillis {
		columns = append(columns, report.Column[way]{Title: figure.Text(model) + " ms", Cell: func(w way) report.Cell { return w.at(model) }})
	}
	b.Tables = append(b.Tables, report.TableOf("Mean time of a task, by the model's round trip", "data set", rows,
		func(w way) (string, string) { return w.title, "" }, columns...))
	sum := sets[len(sets)-1]
	p := report.Plot{Name: "pipelines-time", Title: fmt.Sprintf("Mean time of %d tasks", sum.tasks), X: "round trip of the model, ms",
		Y: "a task, ms"}
	for _, w := range sum.ways() {
		line := report.Line{Name: w.name}
		for _, model := range modelMillis {
			line.Points = append(line.Points, [2]float64{model, w.at(model).Value})
		}
		p.Lines = append(p.Lines, line)
	}
	b.Plots = append(b.Plots, p)
}

// figures adds the figures of all data sets.
func (d *dataSet) figures(b *harness.Bench) {
	count := func(name, title string, n int) {
		b.Figure(report.CountFigure("real/"+name, "tasks of the data sets"+title, n))
	}
	count("tasks", "", d.tasks)
	count("round-trips/calls", ": round trips, calls one by one", d.calls.RoundTrips)
	count("round-trips/side-by-side", ": round trips at least, calls side by side", d.sideBySide)
	count("round-trips/chain", ": round trips, by chains", d.chain.RoundTrips)
	count("read/calls", ": tokens read, calls one by one", d.calls.Read)
	count("read/chain", ": tokens read, by lite chains", d.chain.Read)
	count("read/chain-full", ": tokens read, by chains with a report of each step", d.fullAnswer)
	count("written/calls", ": tokens written, calls one by one", d.calls.Written)
	count("written/chain", ": tokens written, as chains", d.chain.Written)
	count("written/typescript", ": tokens written, as TypeScript, its text alone", d.program)
	count("written/typescript-call", ": tokens written, as TypeScript in a tool's arguments", d.programCall)
	ways := d.ways()
	b.Figure(report.RatioFigure("real/read/share", "tasks of the data sets: tokens read by lite chains, against calls", d.chain.Read, d.calls.Read, 0),
		report.RatioFigure("real/written/share", "tasks of the data sets: tokens written as chains, against calls",
			d.chain.Written, d.calls.Written, 0),
		report.RatioFigure("real/time-1000/share", "tasks of the data sets: time by chains, against calls, a model's round trip taking 1,000 ms",
			ways[2].at(1000).Value, ways[0].at(1000).Value, 0))
}
