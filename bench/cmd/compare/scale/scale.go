// Package scale measures how the cost of onecall grows with the number of functions, of steps of a chain, of elements of a forEach, of
// bytes of a result, and of clients, and with time.
package scale

import (
	"context"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/harness"
	"github.com/onecall-mcp/onecall/bench/cmd/compare/report"
	"github.com/onecall-mcp/onecall/bench/cmd/compare/work"
)

// Section is the section.
var Section = harness.Section{
	Name: "scale", Title: "How cost grows", Long: 5, Short: 1, NoNode: true,
	Question: `How does what onecall costs grow with what it is given? Each size is measured in a process of its own (functions, steps,
elements, bytes: the embedded engine), rounds of onecall and of its baseline alternately, reported as medians. Clients are processes
apart from the server's, on loopback; each has a connection of its own and makes its next call as soon as it has its answer. The *power of
growth* is p where cost grows as size to the power of p, between the last two sizes: 0 does not grow, 1 is linear.`,
	Corpus: []string{"made functions, with names, descriptions and schemas as services have them",
		"functions that do nothing, so that what is measured is onecall"},
	Comments: comments,
	Parts:    []harness.Part{{Name: "growth", Measure: grow}, {Name: "clients", Measure: clients}, {Name: "soak", Measure: soak}},
}

// worker returns the program whose processes are measured.
func worker(ctx context.Context, b *harness.Bench) (*work.Worker, error) {
	b.Versions[report.SDK] = report.SDKVersion()
	return work.Build(ctx, b)
}

func grow(ctx context.Context, b *harness.Bench) error {
	w, err := worker(ctx, b)
	if err != nil {
		return err
	}
	for i := range growths {
		if err := growths[i].measured(ctx, w, b); err != nil {
			return err
		}
	}
	return nil
}

// comments explain the limits of the figures and name the ones where onecall is not first.
var comments = []string{
	"Until functions can be called onecall compiles the schema of each, with a validator that knows all drafts, so that what cannot be " +
		"checked is reported at the start and not by a call. That is nine tenths of the time in which it is behind the SDK's server. What it " +
		"keeps beyond the SDK's is its index of names and what a schema declares.",
	"The first search makes the index of words. A search scores every function that has one of its words: with the same words in a " +
		"constant share of all functions it is linear.",
	"Passing a byte on takes as long as some fifteen readings of it: on its way in it is checked to be JSON, in UTF-8, not too deep and " +
		"without blanks, and so it is as an argument, where it is held against the schema, too, and looked through for keys " +
		"that stand twice. The peak memory holds the result, the arguments made of it, and what the collector has not taken back.",
	"A chain of ten no-ops stands against *one* bare call: chains / calls of 1 means that ten times as many functions are called a " +
		"second. A bare call passes the SDK's server, a chain is answered past it.",
	"Clients call onecall's server as a Go program embeds it: without a journal, and without bounds of sessions and calls. " +
		"[Beside what users would pick instead](#beside-what-users-would-pick-instead) it is `onecall serve`.",
	"Clients call without a pause, so from some ten on the two cores are busy, and what is told as time is waiting: of 1,000 clients each " +
		"waits for 999 others. The clients have half of the processors' time.",
	"The answer with steps and usage gives up the steps that are ok where they do not fit the budget of 10,000 tokens: that of 1,000 steps " +
		"is shorter than that of 100.",
}

// growths are measured in this order.
var growths = []growth{{
	measure: "functions", title: "Functions", x: "functions", short: []int{10, 100, 1000, 10_000}, long: []int{100_000},
	columns: []column{
		{title: "until all can be called", sample: "ready-ms", unit: "ms", plot: "functions-time", y: "ms"},
		{title: "SDK's server", sample: "bare-ready-ms", unit: "ms", plot: "functions-time"},
		{title: "first search", sample: "first-search-ms", unit: "ms", plot: "functions-time"},
		{title: "a search", sample: "search-ms", unit: "ms", plot: "functions-time"},
		{title: "a chain of three", sample: "chain-ms", unit: "ms", plot: "functions-time"},
		{title: "tools/list", sample: "list-tokens", unit: "tokens", plot: "functions-tokens", y: "tokens"},
		{title: "SDK's tools/list", sample: "bare-list-tokens", unit: "tokens", plot: "functions-tokens"},
		{title: "memory kept", sample: "memory-mb", unit: "MB", plot: "functions-memory", y: "MB"},
		{title: "SDK's", sample: "bare-memory-mb", unit: "MB", plot: "functions-memory"},
	},
	linear: []linear{{"functions-ready", "until a function can be called", "ready-ms", 1000, 10_000}},
	values: []value{
		{name: "list-tokens", title: "tools/list with 10,000 functions", sample: "list-tokens", size: 10_000, unit: "tokens",
			max: 600},
		{name: "list-tokens/bare", title: "tools/list with 10,000 functions / that of the SDK's server",
			sample: "list-tokens", over: "bare-list-tokens", size: 10_000},
		{name: "ready/bare", title: "until 10,000 functions can be called / until the SDK's server has as many tools",
			sample: "ready-ms", over: "bare-ready-ms", size: 10_000},
	},
}, {
	measure: "steps", title: "Steps of a chain", x: "steps", short: []int{1, 10, 100, 1000},
	columns: []column{
		{title: "the chain", sample: "chain-ms", unit: "ms", plot: "steps-time", y: "ms"},
		{title: "bare function calls", sample: "bare-ms", unit: "ms", plot: "steps-time"},
		{title: "a step", sample: "chain-ms", unit: "µs", factor: 1000, each: true},
		{title: "answer, lite", sample: "lite-tokens", unit: "tokens", plot: "steps-tokens", y: "tokens"},
		{title: "with steps and usage", sample: "full-tokens", unit: "tokens", plot: "steps-tokens", cut: true},
	},
	linear: []linear{{"steps-time", "time of a step with a reference to the one before", "chain-ms", 100, 1000}},
}, {
	measure: "elements", title: "Elements of a forEach", x: "elements", short: []int{100, 1000, 10_000, 100_000},
	columns: []column{
		{title: "an element", sample: "chain-ms", unit: "µs", factor: 1000, each: true, plot: "elements-time", y: "µs an element"},
		{title: "a bare function call", sample: "bare-ms", unit: "µs", factor: 1000, each: true, plot: "elements-time"},
		{title: "all", sample: "chain-ms", unit: "ms"},
		{title: "peak memory of the process", sample: "peak-mb", unit: "MB", plot: "elements-memory", y: "MB"},
	},
	linear: []linear{{"elements-time", "time of an element", "chain-ms", 10_000, 100_000}},
}, {
	measure: "bytes", title: "Bytes of a result", x: "bytes", short: []int{100_000, 1_000_000, 10_000_000, 50_000_000},
	columns: []column{
		{title: "a chain that passes it on", sample: "pass-ms", unit: "ms", plot: "bytes-time", y: "ms"},
		{title: "a probe", sample: "probe-ms", unit: "ms", plot: "bytes-time"},
		{title: "a page from the middle", sample: "page-ms", unit: "ms", plot: "bytes-time"},
		{title: "one reading of the JSON", sample: "bare-ms", unit: "ms", plot: "bytes-time"},
		{title: "peak memory of the process", sample: "peak-mb", unit: "MB", plot: "bytes-memory", y: "MB"},
	},
	linear: []linear{
		{"bytes-pass", "time to pass on a byte", "pass-ms", 1_000_000, 10_000_000},
		{"bytes-probe", "time of a byte in a probe", "probe-ms", 1_000_000, 10_000_000},
	},
	values: []value{{name: "bytes-memory", title: "50 MB passed on, probed and paged: peak memory of the process / the result's size",
		sample: "peak-mb", over: "size-mb", size: 50_000_000}},
}}
