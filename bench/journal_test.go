//go:build unix

package bench

import (
	"context"
	"encoding/json"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/chain/journal/sqljournal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// newSQLiteJournal returns a journal in a temporary file.
func newSQLiteJournal(b *testing.B) *journal.Journal {
	driver, err := sqljournal.OpenSQLite(filepath.Join(b.TempDir(), "journal.db"), nil)
	if err != nil {
		b.Fatal(err)
	}
	j, err := journal.New(driver, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { j.Close() })
	return j
}

// BenchmarkJournal compares ten reads that do nothing, in process and over HTTP, with a journal and without one; and the resume of a
// hundred steps, of which the last failed, with a run of the last step alone.
func BenchmarkJournal(b *testing.B) {
	request := []byte(`{"lite":true,"steps":[` + strings.TrimSuffix(strings.Repeat(`{"fn":"bench.noop"},`, 10), ",") + `]}`)
	b.Run("reads/process", func(b *testing.B) {
		run := func(j *journal.Journal) func() {
			e := newEngineWithJournal(b, j, nothing())
			return func() {
				if a := e.Run(b.Context(), request, nil); string(a.JSON) != `{"ok":1}` {
					b.Fatalf(`got %s, want {"ok":1}`, a.JSON)
				}
			}
		}
		j := newSQLiteJournal(b)
		compareJournal(b, 3000, j, run(nil), run(j))
	})
	b.Run("reads/http", func(b *testing.B) {
		call := func(j *journal.Journal) func() {
			url := serveLoad(b, &serverOptions{functions: []steps.Function{nothing()}, journal: j})
			client := sdk.NewClient(&sdk.Implementation{Name: "bench", Version: "1"}, nil)
			session, err := client.Connect(b.Context(), &sdk.StreamableClientTransport{Endpoint: url}, nil)
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { session.Close() })
			return func() {
				result, err := session.CallTool(b.Context(), &sdk.CallToolParams{Name: "chain", Arguments: json.RawMessage(request)})
				if err != nil || result.Content[0].(*sdk.TextContent).Text != `{"ok":1}` {
					b.Fatalf(`got %+v, %v, want {"ok":1}`, result, err)
				}
			}
		}
		j := newSQLiteJournal(b)
		compareJournal(b, 1000, j, call(nil), call(j))
	})
	b.Run("resume", benchmarkResume)
}

// compareJournal runs two sides alternately, n calls each time. It reports medians of the extra cost of the side with a journal: of the
// median call, of the time of all calls (as a ratio), and of processor time until everything is written.
func compareJournal(b *testing.B, n int, j *journal.Journal, without, with func()) {
	const rounds = 15
	measure := func(call func()) (p50, all, cpu float64) {
		runtime.GC() // garbage of the other side must not count
		before := cpuTime(b)
		took := make([]time.Duration, n)
		for i := range took {
			began := time.Now()
			call()
			took[i] = time.Since(began)
			all += float64(took[i])
		}
		if _, err := j.List(b.Context(), &journal.Filter{Limit: 1}); err != nil { // flushes pending writes
			b.Fatal(err)
		}
		cpu = float64(cpuTime(b) - before)
		slices.Sort(took)
		return float64(took[n/2]), all, cpu
	}
	measure(without)
	measure(with)
	var p50s, p50Ratios, ratios, cpus []float64
	for round := range rounds {
		var off, on [3]float64
		if round%2 == 0 {
			off[0], off[1], off[2] = measure(without)
		}
		on[0], on[1], on[2] = measure(with)
		if round%2 == 1 {
			off[0], off[1], off[2] = measure(without)
		}
		p50s, p50Ratios = append(p50s, on[0]-off[0]), append(p50Ratios, on[0]/off[0])
		ratios, cpus = append(ratios, on[1]/off[1]), append(cpus, (on[2]-off[2])/float64(n))
	}
	for unit, list := range map[string][]float64{"p50-more-ns": p50s, "p50-ratio": p50Ratios, "ratio": ratios, "cpu-more-ns": cpus} {
		slices.Sort(list)
		b.ReportMetric(list[rounds/2], unit)
	}
}

func newEngineWithJournal(b *testing.B, j *journal.Journal, functions ...steps.Function) *chain.Engine {
	registry, err := steps.NewRegistry(functions, nil)
	if err != nil {
		b.Fatal(err)
	}
	engine, err := chain.New(&chain.Options{Functions: registry, Journal: j})
	if err != nil {
		b.Fatal(err)
	}
	return engine
}

// benchmarkResume counts only the resumes, each of which makes one call.
func benchmarkResume(b *testing.B) {
	broken := true
	last := steps.Function{Spec: steps.Spec{Name: "bench.last"}, Prompt: true, Call: func(context.Context, []byte) ([]byte, error) {
		if broken {
			return nil, fault.New(fault.FunctionFailed, "not yet")
		}
		return []byte(`{"ok":1}`), nil
	}}
	engine := newEngineWithJournal(b, newSQLiteJournal(b), nothing(), last)
	var list []string
	for range 99 {
		list = append(list, `{"fn":"bench.noop"}`)
	}
	request := []byte(`{"steps":[` + strings.Join(append(list, `{"fn":"bench.last"}`), ",") + `]}`)
	for b.Loop() {
		b.StopTimer()
		broken = true
		resume := gjson.GetBytes(engine.Run(b.Context(), request, nil).JSON, "resume").Str
		broken = false
		b.StartTimer()
		if a := engine.Run(b.Context(), []byte(`{"lite":true,"resume":"`+resume+`"}`), nil); string(a.JSON) != `{"ok":1}` {
			b.Fatalf(`got %s, want {"ok":1}`, a.JSON)
		}
	}
}
