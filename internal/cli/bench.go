package cli

import (
	"context"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/app"
	"github.com/onecall-mcp/onecall/internal/chainfile"
	"github.com/onecall-mcp/onecall/internal/history"
	"github.com/onecall-mcp/onecall/internal/tally"
	"github.com/onecall-mcp/onecall/mcp"
	"github.com/onecall-mcp/onecall/steps"
)

// comparison is the answer of bench: the cost of a chain, and of the same calls made one by one, each in a model round trip.
type comparison struct {
	Chain side           `json:"chain"`
	Calls side           `json:"calls"`
	Waves int            `json:"waves"`           // minimum round trips of a model that makes independent calls in parallel
	At    []modelTime    `json:"at,omitempty"`    // the times by duration of a round trip; empty for a replay, which calls nothing
	Tools map[string]int `json:"tools,omitempty"` // tokens of the tool list, by surface
	// Rounds is how often each way was timed.
	Rounds int `json:"rounds"`
}

// side is the cost of one way to do the work.
type side struct {
	tally.Side
	Millis float64 `json:"ms,omitempty"` // median time of the calls over all rounds; 0: nothing was called
	Min    float64 `json:"leastMs,omitempty"`
	Max    float64 `json:"mostMs,omitempty"`
}

// modelTime is the time that each way takes for a given duration of a model round trip, in milliseconds.
type modelTime struct {
	Model float64 `json:"modelMs"`
	Chain float64 `json:"chain"`
	Waves float64 `json:"waves"`
	Calls float64 `json:"calls"`
}

// modelTimes are the durations of a model round trip that times are computed for, in milliseconds.
var modelTimes = []float64{0, 100, 1000, 3000}

func newBenchCommand(c *cli) *cobra.Command {
	f := &benchFlags{}
	cmd := &cobra.Command{
		Use:   "bench FILE|NAME",
		Short: "Compare a chain with the same calls one by one",
		Long: "Run a chain, and then its calls one by one, in turn, and compare round trips, tokens and times. A chain that writes is not\n" +
			"run: record one run of it (onecall run --record F), and compare that (onecall bench --replay F).",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usageErrorf("bench needs a chain: a file, or the name of a saved one")
			}
			return nil
		},
		RunE:              func(cmd *cobra.Command, args []string) error { return c.bench(cmd, f, args[0]) },
		ValidArgsFunction: c.completeChains,
	}
	flags := cmd.Flags()
	flags.BoolVar(&f.asJSON, "json", false, "answer JSON")
	flags.BoolVar(&f.lite, "lite", false, "use the chain's shortest answer")
	flags.IntVar(&f.rounds, "rounds", 5, "how often each way is timed, 1 to 1000 `times`")
	flags.StringVar(&f.input, "input", "", "the chain's $input: a `JSON` object, or @FILE")
	flags.StringArrayVar(&f.set, "set", nil, "set one value of the input, `key=value`: JSON if it parses, else text")
	flags.StringVar(&f.replay, "replay", "", "answer each call from a `file` of run --record, and call nothing")
	return cmd
}

type benchFlags struct {
	chainFlags
	asJSON bool
	rounds int
	replay string
}

// bench compares the chain of a file with its calls.
func (c *cli) bench(cmd *cobra.Command, f *benchFlags, name string) (err error) {
	override, err := f.chainFlags.override(cmd)
	switch {
	case err != nil:
		return err
	case f.rounds < 1 || f.rounds > 1000:
		return usageErrorf("--rounds is %d: use 1 to 1000", f.rounds)
	case name == "-":
		return usageErrorf("bench runs a chain more than once: name a file")
	}
	files, err := chainfile.Find([]string{name}, c.chainFolders())
	if err != nil {
		return exitErrorOfFiles(err)
	}
	if len(files) > 1 || files[0].Lines {
		return usageErrorf("%s holds many chains: bench compares one", name)
	}
	b := &benchmark{override: override, rounds: f.rounds, replayed: f.replay != ""}
	if b.app, err = c.open(cmd.Context(), app.Options{Calls: true, Unrecorded: true, Replay: f.replay, Observe: b.observe}); err != nil {
		return err
	}
	defer closeInto(b.app, &err)
	if b.entry, err = files[0].Read(cmd.Context(), c.in, b.app.MaxRequestBytes); err != nil {
		return exitErrorOfFiles(err)
	}
	for _, field := range []string{"key", "resume"} {
		if gjson.GetBytes(b.entry.Request, field).Exists() {
			return usageErrorf("the chain has %s, and bench runs it as a new one each time: leave it out", field)
		}
	}
	result, failed, err := b.compare(cmd.Context())
	switch {
	case err != nil:
		return err
	case failed != nil:
		return c.showFailedChain(b, failed)
	case f.asJSON || !c.outTerminal:
		return c.writeValue(result)
	}
	if b.unsteady() {
		c.noticef("the slowest run of the chain took more than twice as long as the fastest: the machine, or a server, is busy")
	}
	return c.writeComparison(result)
}

// showFailedChain shows why a chain cannot be compared, as run does.
func (c *cli) showFailedChain(b *benchmark, failed *chain.Answer) error {
	out, err := c.newOutput("")
	if err != nil {
		return err
	}
	return c.answerOne(b.override, out, documentOf(b.entry), func(*chain.Caller) *chain.Answer { return failed })
}

// benchmark is the state of one comparison.
type benchmark struct {
	app      *app.App
	entry    *chainfile.Entry
	override chain.Override
	rounds   int
	replayed bool

	mu    sync.Mutex
	calls []tally.Call // the calls of the current run

	answer     *chain.Answer
	chainTimes []time.Duration
	callTimes  []time.Duration // empty for a replay, which calls nothing
}

// observe records a call. Calls that only compute are not counted: a model that reads all results needs no call for them.
func (b *benchmark) observe(_ context.Context, spec *steps.Spec, args, result []byte, err error) {
	if !tally.Counted(spec.Source()) {
		return
	}
	if err != nil {
		result = []byte(fault.Message(err))
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls = append(b.calls, tally.Call{Function: spec.Name, Args: slices.Clone(args), Result: slices.Clone(result)})
}

// run runs the chain and returns its answer and the calls that it made.
func (b *benchmark) run(ctx context.Context, o chain.Override) (*chain.Answer, []tally.Call) {
	b.mu.Lock()
	b.calls = nil
	b.mu.Unlock()
	answer := answerEntry(ctx, b.app, b.entry, &chain.Caller{Override: o})
	b.mu.Lock()
	defer b.mu.Unlock()
	return answer, b.calls
}

// compare plans the chain, measures both ways and counts tokens. failed is not nil if the chain cannot be compared.
func (b *benchmark) compare(ctx context.Context) (result *comparison, failed *chain.Answer, err error) {
	dryRun := b.override
	dryRun.DryRun = true
	planned, _ := b.run(ctx, dryRun)
	if !planned.OK {
		return nil, planned, nil
	}
	if counts := planned.Plan.Counts; counts[steps.Write]+counts[steps.Destroy] > 0 && !b.replayed {
		return nil, nil, usageErrorf("nothing was run: the chain writes, and bench would make its calls again and again. " +
			"Record one run of it (onecall run --record F), and compare that (onecall bench --replay F)")
	}
	if failed = b.measure(ctx); failed != nil {
		return nil, failed, nil
	}
	rounds, err := b.roundsOfRepeats(ctx)
	if err != nil {
		return nil, nil, err
	}
	result, err = b.count(planned.Plan, rounds)
	return result, nil, err
}

// roundsOfRepeats returns how many calls the last run made one after another for each step, by the step's path without elements: the most
// of any element.
func (b *benchmark) roundsOfRepeats(ctx context.Context) (map[string]int, error) {
	runs, err := history.Runs(ctx, b.app.Journal, &journal.Filter{Limit: 1})
	if err != nil || len(runs) == 0 {
		return nil, err
	}
	t, err := history.Of(ctx, b.app.Journal, runs[0].ID, nil)
	if err != nil {
		return nil, err
	}
	calls, rounds := map[string]int{}, map[string]int{}
	for i := range t.List {
		at := t.List[i].At
		calls[at]++
		path := elementPattern.ReplaceAllString(at, "")
		rounds[path] = max(rounds[path], calls[at])
	}
	return rounds, nil
}

// elementPattern matches the element of a forEach in the path of a call.
var elementPattern = regexp.MustCompile(`\[[0-9]+\]`)

// measure times the chain and its single calls, the chain first in every other round. A warm-up round, which is not timed, connects to the
// sources and finds the calls. measure stops at the first failed answer of the chain and returns that answer. A recording is replayed once.
func (b *benchmark) measure(ctx context.Context) (failed *chain.Answer) {
	calls, took, failed := b.timeChain(ctx)
	if failed != nil || b.replayed { // a recording is replayed once
		b.calls, b.chainTimes = calls, []time.Duration{took}
		return failed
	}
	b.timeCalls(ctx, calls)
	for round := range b.rounds {
		if round%2 == 1 {
			b.callTimes = append(b.callTimes, b.timeCalls(ctx, calls))
		}
		if calls, took, failed = b.timeChain(ctx); failed != nil {
			return failed
		}
		b.chainTimes = append(b.chainTimes, took)
		if round%2 == 0 {
			b.callTimes = append(b.callTimes, b.timeCalls(ctx, calls))
		}
	}
	b.calls = calls
	return nil
}

// timeChain runs the chain, and returns its calls and the time that it took, or its failed answer.
func (b *benchmark) timeChain(ctx context.Context) (calls []tally.Call, took time.Duration, failed *chain.Answer) {
	began := time.Now()
	b.answer, calls = b.run(ctx, b.override)
	took = time.Since(began)
	if !b.answer.OK {
		failed = b.answer
	}
	return calls, took, failed
}

// timeCalls makes calls one after another and returns the time that they took.
func (b *benchmark) timeCalls(ctx context.Context, calls []tally.Call) time.Duration {
	began := time.Now()
	functions := b.app.Catalog.Registry()
	for i := range calls {
		if entry, err := functions.Resolve(calls[i].Function); err == nil {
			_, _ = entry.Call(ctx, calls[i].Args) // the chain tolerated failures, by orElse for example
		}
	}
	return time.Since(began)
}

// count counts the tokens and round trips of the last run.
func (b *benchmark) count(plan *chain.DryRun, rounds map[string]int) (*comparison, error) {
	r := &comparison{Rounds: len(b.chainTimes), Waves: tally.Waves(plan, b.calls, rounds)}
	r.Chain.Side = tally.Chain(b.app.Counter, tally.WithInput(b.entry.Request, b.override.Input, b.override.Set), b.answer.JSON)
	r.Calls.Side = tally.Calls(b.app.Counter, b.calls)
	if b.replayed {
		return r, nil
	}
	r.Chain.setTimes(b.chainTimes)
	r.Calls.setTimes(b.callTimes)
	for _, model := range modelTimes {
		r.At = append(r.At, modelTime{
			Model: model,
			Chain: model + r.Chain.Millis,
			// Side by side, calls are assumed to take as long as in the chain, but never longer than one by one.
			Waves: float64(r.Waves)*model + min(r.Chain.Millis, r.Calls.Millis),
			Calls: float64(r.Calls.RoundTrips)*model + r.Calls.Millis,
		})
	}
	r.Tools = map[string]int{}
	for _, surface := range []mcp.Surface{mcp.SurfaceChain, mcp.SurfaceDispatch, mcp.SurfaceFlat} {
		list, err := b.app.Listing(surface)
		if err != nil {
			return nil, err
		}
		r.Tools[surface.String()] = b.app.Counter.Count(list, -1)
	}
	return r, nil
}

// setTimes records the median, the minimum and the maximum of times. It sorts list.
func (s *side) setTimes(list []time.Duration) {
	slices.Sort(list)
	millis := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	s.Millis, s.Min, s.Max = millis(list[len(list)/2]), millis(list[0]), millis(list[len(list)-1])
}

// unsteady reports whether the chain's times vary too much to be compared. Less than a millisecond is the noise of any machine.
func (b *benchmark) unsteady() bool {
	if len(b.chainTimes) < 2 {
		return false
	}
	minimum, maximum := slices.Min(b.chainTimes), slices.Max(b.chainTimes)
	return maximum > 2*minimum && maximum-minimum > time.Millisecond
}
