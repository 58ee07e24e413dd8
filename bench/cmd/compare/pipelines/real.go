package pipelines

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/report"
	"github.com/onecall-mcp/onecall/bench/datasets"
	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/internal/rawjson"
	"github.com/onecall-mcp/onecall/internal/tally"
)

// titles of the data sets, by their files.
var titles = map[string]string{
	"nestful_math": "NESTFUL", "taubench": "tau-bench", "bfcl_base": "BFCL base", "bfcl_long_context": "BFCL long context",
}

// modelMillis are the assumed durations of a model's round trip, in milliseconds.
var modelMillis = []float64{0, 100, 1000, 3000}

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
func realChains(ctx context.Context, o *report.Options, counter budget.Counter, s *report.Section) error {
	sum := &dataSet{title: "all"}
	var sets []*dataSet
	for _, name := range datasets.Names() {
		chains, err := datasets.Read(filepath.Join(o.Data, name+".jsonl"))
		if errors.Is(err, fs.ErrNotExist) {
			s.Comments = append(s.Comments, "The data set "+titles[name]+" is not on this machine, and not measured.")
			o.Log("   missing, so not measured: %s.jsonl", name)
			continue
		}
		if err != nil {
			return err
		}
		set, err := measureSet(ctx, counter, chains, rounds(o))
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		set.title = titles[name]
		sets = append(sets, set)
		sum.add(set)
	}
	if len(sets) == 0 {
		return nil
	}
	s.Corpus = append(s.Corpus,
		fmt.Sprintf("%d tasks of NESTFUL, tau-bench and BFCL v4 (multi-turn base and long context), replayed", sum.tasks))
	sets = append(sets, sum)
	s.Tables = append(s.Tables, roundTripTable(sets), tokenTable(sets), timeTable(sets))
	s.Plots = append(s.Plots, timePlot(sum))
	if len(sets) == len(datasets.Names())+1 { // all data sets, and their sum
		s.Figures = append(s.Figures, sum.figures()...)
	}
	s.Comments = append(s.Comments, realComments...)
	return nil
}

var realComments = []string{
	"The calls are those that the data sets give as right, so neither side loses a round trip to a mistake or to a search for functions. " +
		"The references were put in afterwards, where an argument equals a value of an earlier result.",
	"A chain ends where a model must read a result before it can write the next step. BFCL's tasks are dialogs, with a chain for each " +
		"turn of the user. A chain also ends before a step that names one of several entries of a list, or a member by a key that is the " +
		"value itself, because the model chose that entry or member; most of tau-bench's tasks have such steps. A chain returns the whole " +
		"results that later chains need, and those contain the values literally. Calls side by side wait only for the results that they " +
		"use, even if the model had to choose from a result.",
	"Each replayed chain is checked: it makes the recorded calls, and returns the last recorded value. The data sets have no tool " +
		"lists, so the tokens of tool lists are not included.",
	"A program is TypeScript for a code mode, generated from the chain with a line for each step. It returns the last result, as a " +
		"lite chain does. It is counted as text alone, which some hosts accept, and in the arguments of a tool, as the chain is. As text " +
		"alone it is shorter than the chain; both are longer than the calls where results are short.",
	"The calls are answered from memory, so times at 0 ms are the engine's own work: to compile, check and run a chain costs more than to " +
		"ask the recording alone, and one round trip of any model more than both. Time that a model needs to write its tokens is not counted.",
}

// rounds returns how often times are measured.
func rounds(o *report.Options) int {
	if o.Short {
		return 3
	}
	return 11
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
	d.callTimes, d.chainTimes = plus(d.callTimes, more.callTimes), plus(d.chainTimes, more.chainTimes)
}

// plus adds two lists, number by number. a may be shorter than b.
func plus(a, b []float64) []float64 {
	sum := slices.Clone(b)
	for i := range a {
		sum[i] += a[i]
	}
	return sum
}

// measureSet counts and times the chains of a data set.
func measureSet(ctx context.Context, counter budget.Counter, chains []*datasets.Chain, rounds int) (*dataSet, error) {
	d := &dataSet{tasks: len(chains), callTimes: make([]float64, rounds), chainTimes: make([]float64, rounds)}
	for _, c := range chains {
		turns, err := c.Turns()
		if err != nil {
			return nil, err
		}
		for _, turn := range turns {
			d.sideBySide += sideBySide(turn.Steps)
			parts, err := turn.Parts()
			if err != nil {
				return nil, err
			}
			for _, part := range parts {
				if err := d.measure(ctx, counter, part, rounds); err != nil {
					return nil, fmt.Errorf("%s: %w", part.ID, err)
				}
			}
		}
	}
	return d, nil
}

// measure counts and times a chain.
func (d *dataSet) measure(ctx context.Context, counter budget.Counter, c *datasets.Chain, rounds int) error {
	calls, err := c.Calls()
	if err != nil {
		return err
	}
	player, err := datasets.Replay(datasets.Recording(calls), nil)
	if err != nil {
		return err
	}
	t := &sentChain{Chain: c, calls: calls, player: player}
	if err := t.count(ctx, counter, d); err != nil {
		return err
	}
	for i := range rounds {
		if err := t.time(ctx, d, i); err != nil {
			return err
		}
	}
	return nil
}

// sentChain is a chain of a data set while it is measured.
type sentChain struct {
	*datasets.Chain
	calls  []tally.Call
	player *datasets.Player
}

// request returns the chain as a model sends it, with more fields.
func (t *sentChain) request(fields string) []byte {
	if len(t.Return) > 0 {
		returned := make([]string, len(t.Return))
		for i, step := range t.Return {
			returned[i] = fmt.Sprintf(`"$%d"`, step)
		}
		fields += `,"return":[` + strings.Join(returned, ",") + "]"
	}
	return fmt.Appendf(nil, `{"steps":%s%s}`, t.Steps, fields)
}

// wantAnswer returns the answer that the chain must give.
func (t *sentChain) wantAnswer() []byte {
	if len(t.Return) == 0 {
		return rawjson.AppendCompact(nil, t.calls[len(t.calls)-1].Result)
	}
	text := []byte{'['}
	for i, step := range t.Return {
		if i > 0 {
			text = append(text, ',')
		}
		text = rawjson.AppendCompact(text, t.calls[step].Result)
	}
	return append(text, ']')
}

// run runs the chain as request writes it. It is an error if the chain fails.
func (t *sentChain) run(ctx context.Context, request []byte) (*chain.Answer, error) {
	answer := t.player.Engine.Run(t.player.Cassette.Cursor(ctx, ""), request, nil)
	if !answer.OK {
		return nil, fmt.Errorf("the chain failed: %s", answer.JSON)
	}
	return answer, nil
}

// count counts round trips and tokens, and checks the answer.
func (t *sentChain) count(ctx context.Context, counter budget.Counter, d *dataSet) error {
	lite := t.request(`,"lite":true`)
	answer, err := t.run(ctx, lite)
	if err != nil {
		return err
	}
	full, err := t.run(ctx, t.request(""))
	if err != nil {
		return err
	}
	if want := t.wantAnswer(); !bytes.Equal(want, answer.JSON) {
		return fmt.Errorf("answered %s, want %s", answer.JSON, want)
	}
	text := program(t.Steps, t.Return)
	code, err := rawjson.Marshal(map[string]string{"code": text})
	if err != nil {
		return err
	}
	d.calls.Add(tally.Calls(counter, t.calls))
	d.chain.Add(tally.Chain(counter, lite, answer.JSON))
	d.fullAnswer += counter.Count(full.JSON, -1)
	d.program += counter.Count([]byte(text), -1)
	d.programCall += counter.Count(tally.CallText("code", code), -1)
	return nil
}

// time measures the calls and then the chain, each once, and adds the times to a round.
func (t *sentChain) time(ctx context.Context, d *dataSet, round int) error {
	began := time.Now()
	cursor := t.player.Cassette.Cursor(ctx, "")
	for i := range t.calls {
		entry, err := t.player.Functions.Resolve(t.calls[i].Function)
		if err != nil {
			return err
		}
		if _, err := entry.Call(cursor, t.calls[i].Args); err != nil {
			return err
		}
	}
	d.callTimes[round] += millis(time.Since(began))
	began = time.Now()
	_, err := t.run(ctx, t.request(`,"lite":true`))
	d.chainTimes[round] += millis(time.Since(began))
	return err
}

func millis(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }
