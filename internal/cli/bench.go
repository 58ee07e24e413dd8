package cli

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/app"
	"github.com/onecall-mcp/onecall/internal/chainfile"
	"github.com/onecall-mcp/onecall/internal/rawjson"
	"github.com/onecall-mcp/onecall/mcp"
	"github.com/onecall-mcp/onecall/steps"
)

// comparison is what bench answers: a chain beside the same calls made one by one, each in a round trip of the model.
type comparison struct {
	Chain side           `json:"chain"`
	Calls side           `json:"calls"`
	Waves int            `json:"waves"`           // the round trips of a model that makes calls side by side wherever the chain does, at least
	At    []modelTime    `json:"at,omitempty"`    // none of a replay, which calls nothing
	Tools map[string]int `json:"tools,omitempty"` // tokens of the tool list, by surface
	Runs  int            `json:"rounds"`
}

// side is what one way costs. Tokens are of what the model writes to make the calls, and of what it reads of their answers.
type side struct {
	RoundTrips int     `json:"roundTrips"`
	Written    int     `json:"written"`
	Read       int     `json:"read"`
	Millis     float64 `json:"ms,omitempty"` // of the calls, the median of all rounds; 0: nothing was called
}

// modelTime is how long each way takes if a round trip of the model takes so long.
type modelTime struct {
	Model float64 `json:"modelMs"`
	Chain float64 `json:"chain"`
	Waves float64 `json:"waves"`
	Calls float64 `json:"calls"`
}

// modelTimes are the round trips of a model that times are told for.
var modelTimes = []float64{0, 100, 1000, 3000}

func newBenchCommand(c *cli) *cobra.Command {
	f := &benchFlags{}
	cmd := &cobra.Command{
		Use:   "bench FILE|NAME",
		Short: "Compare a chain with the same calls one by one",
		Long: "Run a chain, and the calls that it makes one by one, by turns, and compare round trips, tokens and times. A chain that\n" +
			"writes is not run: record one run of it (onecall run --record F), and compare that (onecall bench --replay F).",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usage("bench needs a chain: a file, or the name of a saved one")
			}
			return nil
		},
		RunE:              func(cmd *cobra.Command, args []string) error { return c.bench(cmd, f, args[0]) },
		ValidArgsFunction: c.completeChains,
	}
	flags := cmd.Flags()
	flags.BoolVar(&f.asJSON, "json", false, "answer JSON")
	flags.BoolVar(&f.lite, "lite", false, "with the leanest answer of the chain")
	flags.IntVar(&f.rounds, "rounds", 5, "how often each side is timed, 1 to 1000 `times`")
	flags.StringVar(&f.input, "input", "", "what the chain reads as $input: a `JSON` object, or @FILE")
	flags.StringArrayVar(&f.set, "set", nil, "one value of the input, `key=value`: JSON if it parses, else text")
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
		return usage("--rounds is %d: use 1 to 1000", f.rounds)
	case name == "-":
		return usage("bench runs a chain more than once: name a file")
	}
	files, err := chainfile.Find([]string{name}, c.chainFolders())
	if err != nil {
		return statusOfFiles(err)
	}
	if len(files) > 1 || files[0].Lines {
		return usage("%s holds many chains: bench compares one", name)
	}
	b := &benchmark{override: override, rounds: f.rounds, replayed: f.replay != ""}
	if b.app, err = c.open(cmd.Context(), app.Options{Calls: true, Replay: f.replay, Observe: b.observe}); err != nil {
		return err
	}
	defer closeInto(b.app, &err)
	if b.entry, err = files[0].Read(cmd.Context(), c.in, b.app.MaxRequestBytes); err != nil {
		return statusOfFiles(err)
	}
	for _, field := range []string{"key", "resume"} {
		if gjson.GetBytes(b.entry.Request, field).Exists() {
			return usage("the chain has %s, and bench runs it as a new one each time: leave it out", field)
		}
	}
	result, failed, err := b.compare(cmd.Context())
	switch {
	case err != nil:
		return err
	case failed != nil:
		return c.showFailed(b, failed)
	case f.asJSON || !c.outTerminal:
		return c.writeValue(result)
	}
	if b.unsteady() {
		c.note("the slowest run of the chain took more than twice as long as the fastest: the machine, or a server, is busy")
	}
	return c.writeComparison(result)
}

// showFailed tells of a chain that cannot be compared what run tells of it.
func (c *cli) showFailed(b *benchmark, failed *chain.Answer) error {
	out, err := c.newOutput("")
	if err != nil {
		return err
	}
	return c.answerOne(b.override, out, sourceOf(b.entry), func(*chain.Caller) *chain.Answer { return failed })
}

// benchmark is one comparison under way.
type benchmark struct {
	app      *app.App
	entry    *chainfile.Entry
	override chain.Override
	rounds   int
	replayed bool

	mu    sync.Mutex
	calls []benchCall // of the run under way

	answer     *chain.Answer
	chainTimes []time.Duration
	callTimes  []time.Duration
}

// benchCall is a call that the chain has made.
type benchCall struct {
	function     string
	args, result []byte
}

// observe takes note of a call, but for computing alone, which a model that reads all results does without a call.
func (b *benchmark) observe(_ context.Context, spec *steps.Spec, args, result []byte, err error) {
	if source := spec.Source(); source == "expr" || source == "text" {
		return
	}
	if err != nil {
		result = []byte(fault.Message(err))
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls = append(b.calls, benchCall{spec.Name, slices.Clone(args), slices.Clone(result)})
}

// run runs the chain, and gives the calls that it has made.
func (b *benchmark) run(ctx context.Context, o chain.Override) (*chain.Answer, []benchCall) {
	b.mu.Lock()
	b.calls = nil
	b.mu.Unlock()
	answer := answerEntry(ctx, b.app, b.entry, &chain.Caller{Override: o})
	b.mu.Lock()
	defer b.mu.Unlock()
	return answer, b.calls
}

// compare plans, measures and counts. A failed answer means that the chain cannot be compared.
func (b *benchmark) compare(ctx context.Context) (result *comparison, failed *chain.Answer, err error) {
	dryRun := b.override
	dryRun.DryRun = true
	planned, _ := b.run(ctx, dryRun)
	if !planned.OK {
		return nil, planned, nil
	}
	if counts := planned.Plan.Counts; counts[steps.Write]+counts[steps.Destroy] > 0 && !b.replayed {
		return nil, nil, usage("nothing was run: the chain writes, and bench would make its calls again and again. " +
			"Record one run of it (onecall run --record F), and compare that (onecall bench --replay F)")
	}
	if failed = b.measure(ctx); failed != nil {
		return nil, failed, nil
	}
	result, err = b.count(planned.Plan)
	return result, nil, err
}

// measure times the chain, and its calls one by one, by turns. A failed answer of the chain ends it.
func (b *benchmark) measure(ctx context.Context) (failed *chain.Answer) {
	rounds := b.rounds
	if b.replayed {
		rounds = 1
	}
	var calls []benchCall
	for range rounds {
		began := time.Now()
		b.answer, calls = b.run(ctx, b.override)
		b.chainTimes = append(b.chainTimes, time.Since(began))
		if !b.answer.OK {
			return b.answer
		}
		if !b.replayed {
			b.callTimes = append(b.callTimes, b.one(ctx, calls))
		}
	}
	b.calls = calls
	return nil
}

// one makes calls one after the other.
func (b *benchmark) one(ctx context.Context, calls []benchCall) time.Duration {
	began := time.Now()
	functions := b.app.Catalog.Registry()
	for i := range calls {
		if entry, err := functions.Resolve(calls[i].function); err == nil {
			_, _ = entry.Call(ctx, calls[i].args) // what the chain bore, as by orElse, is borne here
		}
	}
	return time.Since(began)
}

// count counts tokens and round trips of what was measured.
func (b *benchmark) count(plan *chain.DryRun) (*comparison, error) {
	count := func(text []byte) int { return b.app.Counter.Count(text, -1) }
	r := &comparison{Runs: len(b.chainTimes), Waves: min(depth(&plan.DryChain), len(b.calls)), Calls: side{RoundTrips: len(b.calls)}}
	r.Chain = side{RoundTrips: 1, Written: count(callText("chain", b.request())), Read: count(b.answer.JSON)}
	for i := range b.calls {
		r.Calls.Written += count(callText(b.calls[i].function, b.calls[i].args))
		r.Calls.Read += count(b.calls[i].result)
	}
	if b.replayed {
		return r, nil
	}
	r.Chain.Millis, r.Calls.Millis = median(b.chainTimes), median(b.callTimes)
	for _, model := range modelTimes {
		r.At = append(r.At, modelTime{Model: model, Chain: model + r.Chain.Millis, Waves: float64(r.Waves)*model + min(r.Chain.Millis, r.Calls.Millis),
			Calls: float64(r.Calls.RoundTrips)*model + r.Calls.Millis})
	}
	r.Tools = map[string]int{}
	for _, surface := range []mcp.Surface{mcp.SurfaceChain, mcp.SurfaceDispatch, mcp.SurfaceFlat} {
		list, err := b.app.Listing(surface)
		if err != nil {
			return nil, err
		}
		r.Tools[surface.String()] = count(list)
	}
	return r, nil
}

// request is the chain as a model would send it: with the input that the flags give, and without what is for readers of the file.
func (b *benchmark) request() []byte {
	var all, input map[string]json.RawMessage
	if json.Unmarshal(b.entry.Request, &all) != nil {
		return b.entry.Request
	}
	delete(all, "$schema")
	delete(all, "description")
	if len(b.override.Input) > 0 {
		all["input"] = b.override.Input
	}
	_ = json.Unmarshal(all["input"], &input) // without one there is nothing to add to
	if input == nil {
		input = map[string]json.RawMessage{}
	}
	for _, set := range b.override.Set {
		value := json.RawMessage(set.Value)
		if !json.Valid(value) {
			value, _ = rawjson.Marshal(set.Value) // a text always can be
		}
		input[set.Key] = value
	}
	if len(input) > 0 {
		all["input"], _ = rawjson.Marshal(input)
	}
	text, _ := rawjson.Marshal(all) // what was read can be written
	return text
}

// callText is a call as a model writes it: without blanks.
func callText(name string, args []byte) []byte {
	text := append([]byte(`{"name":"`+name+`","arguments":`), rawjson.AppendCompact(nil, args)...)
	return append(text, '}')
}

// depth is how many calls of a chain, at least, have to wait for one another: elements count as one, and so do rounds of repeat.
func depth(c *chain.DryChain) (n int) {
	for _, wave := range c.Waves {
		deepest := 0
		for _, i := range wave {
			switch s := &c.Steps[i]; {
			case s.Chain != nil:
				deepest = max(deepest, depth(s.Chain))
			case s.Function != "" && s.Function != "expr" && !strings.HasPrefix(s.Function, "expr.") && !strings.HasPrefix(s.Function, "text."):
				deepest = max(deepest, 1)
			}
		}
		n += deepest
	}
	return n
}

func median(list []time.Duration) (millis float64) {
	slices.Sort(list)
	return float64(list[len(list)/2].Microseconds()) / 1000
}

// unsteady reports whether the times of the chain are too far apart to say much.
func (b *benchmark) unsteady() bool {
	return len(b.chainTimes) > 1 && slices.Max(b.chainTimes) > 2*slices.Min(b.chainTimes)
}
