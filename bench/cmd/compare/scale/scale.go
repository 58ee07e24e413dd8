// Package scale measures how the cost of onecall grows with the number of functions, of steps of a chain, of elements of a forEach, of
// bytes of a result, and of clients, and with time.
package scale

import (
	"context"
	_ "embed"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/harness"
	"github.com/onecall-mcp/onecall/bench/cmd/compare/report"
	"github.com/onecall-mcp/onecall/bench/cmd/compare/work"
)

//go:embed scale.md
var text string

// Section is the section.
var Section = harness.Section{Name: "scale", Text: text, NoNode: true,
	Parts: []harness.Part{{Name: "growth", Measure: grow}, {Name: "clients", Measure: clients}, {Name: "soak", Measure: soak}}}

// worker returns the program whose processes are measured.
func worker(ctx context.Context, b *harness.Bench) *work.Worker {
	b.Versions[report.SDK] = report.SDKVersion()
	return work.Build(ctx, b)
}

func grow(ctx context.Context, b *harness.Bench) {
	w := worker(ctx, b)
	for i := range growths {
		growths[i].measured(ctx, w, b)
	}
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
	figures: []sized{
		linear{"functions-ready", "until a function can be called", "ready-ms", 1000, 10_000},
		value{name: "list-tokens", title: "tools/list with 10,000 functions", sample: "list-tokens", size: 10_000, unit: "tokens", max: 600},
		value{name: "list-tokens/bare", title: "tools/list with 10,000 functions / that of the SDK's server",
			sample: "list-tokens", over: "bare-list-tokens", size: 10_000},
		value{name: "ready/bare", title: "until 10,000 functions can be called / until the SDK's server has as many tools",
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
	figures: []sized{linear{"steps-time", "time of a step with a reference to the one before", "chain-ms", 100, 1000}},
}, {
	measure: "elements", title: "Elements of a forEach", x: "elements", short: []int{100, 1000, 10_000, 100_000},
	columns: []column{
		{title: "an element", sample: "chain-ms", unit: "µs", factor: 1000, each: true, plot: "elements-time", y: "µs an element"},
		{title: "a bare function call", sample: "bare-ms", unit: "µs", factor: 1000, each: true, plot: "elements-time"},
		{title: "all", sample: "chain-ms", unit: "ms"},
		{title: "peak memory of the process", sample: "peak-mb", unit: "MB", plot: "elements-memory", y: "MB"},
	},
	figures: []sized{linear{"elements-time", "time of an element", "chain-ms", 10_000, 100_000}},
}, {
	measure: "bytes", title: "Bytes of a result", x: "bytes", short: []int{100_000, 1_000_000, 10_000_000, 50_000_000},
	columns: []column{
		{title: "a chain that passes it on", sample: "pass-ms", unit: "ms", plot: "bytes-time", y: "ms"},
		{title: "a probe", sample: "probe-ms", unit: "ms", plot: "bytes-time"},
		{title: "a page from the middle", sample: "page-ms", unit: "ms", plot: "bytes-time"},
		{title: "one reading of the JSON", sample: "bare-ms", unit: "ms", plot: "bytes-time"},
		{title: "peak memory of the process", sample: "peak-mb", unit: "MB", plot: "bytes-memory", y: "MB"},
	},
	figures: []sized{
		linear{"bytes-pass", "time to pass on a byte", "pass-ms", 1_000_000, 10_000_000},
		linear{"bytes-probe", "time of a byte in a probe", "probe-ms", 1_000_000, 10_000_000},
		value{name: "bytes-memory", title: "50 MB passed on, probed and paged: peak memory of the process / the result's size",
			sample: "peak-mb", over: "size-mb", size: 50_000_000},
	},
}}
