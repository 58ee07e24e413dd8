//go:build unix

package telemetry_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/internal/telemetry"
	"github.com/onecall-mcp/onecall/steps"
)

// tenSteps are a chain of ten independent steps, and one of ten steps of which each refers to the one before.
var tenSteps = map[string]string{
	"side-by-side": `{"lite":true,"steps":[` + strings.TrimSuffix(strings.Repeat(`{"fn":"bench.noop","args":{"id":"x"}},`, 10), ",") + `]}`,
	"one-by-one": `{"lite":true,"steps":[{"fn":"bench.noop","args":{"id":"x"}}` +
		strings.Repeat(`,{"fn":"bench.noop","args":{"id":"$prev.id","value":"$prev.value"}}`, 9) + `]}`,
}

// BenchmarkObserved runs chains of ten no-ops in process, several at a time: without an observer; with metrics; with metrics and a log at
// level info; and additionally with traces to a collector on loopback. It compares processor time, including garbage collection. The arms
// take turns, and a ratio is the median over the turns, so that other load on the machine affects all arms alike. A chain in process is
// cheap, so the ratios are high, but the additional µs are the same over HTTP.
func BenchmarkObserved(b *testing.B) {
	for name, request := range tenSteps {
		b.Run(name, func(b *testing.B) { compareObserved(b, []byte(request)) })
	}
}

func compareObserved(b *testing.B, request []byte) {
	const clients, each = 8, 50
	arms := observedArms(b)
	rounds := make([][]float64, len(arms)) // µs per chain
	for round := 0; b.Loop(); round++ {
		for i := range arms {
			i = (i + round) % len(arms)
			rounds[i] = append(rounds[i], cpuPerRun(b, clients*each, func() { runChains(b, arms[i].engine, request, clients, each) }))
		}
	}
	b.ReportMetric(0, "ns/op") // would be the time of all arms together
	b.ReportMetric(median(rounds[0]), "off-µs")
	for i, arm := range arms[1:] {
		var ratios, extra []float64
		for round, µs := range rounds[i+1] {
			ratios, extra = append(ratios, µs/rounds[0][round]), append(extra, µs-rounds[0][round])
		}
		b.ReportMetric(median(extra), arm.name+"-µs-more")
		b.ReportMetric(median(ratios), arm.name+"-ratio")
	}
}

func runChains(b *testing.B, e *chain.Engine, request []byte, clients, each int) {
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			for range each {
				if answer := e.Run(context.Background(), request, nil); string(answer.JSON) != benchResult {
					b.Errorf("got %s, want %s", answer.JSON, benchResult)
					return
				}
			}
		})
	}
	all.Wait()
}

// cpuPerRun returns the processor time of run, in µs for each of n.
func cpuPerRun(b *testing.B, n int, run func()) float64 {
	runtime.GC() // no arm collects another arm's garbage
	before := cpuTime(b)
	run()
	return float64((cpuTime(b) - before).Nanoseconds()) / 1000 / float64(n)
}

func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func median(list []float64) float64 {
	sorted := slices.Sorted(slices.Values(list))
	return sorted[len(sorted)/2]
}

const benchResult = `{"id":"a-1","value":7}`

// observedArm is an engine with an observer.
type observedArm struct {
	name   string
	engine *chain.Engine
}

// observedArms returns the arms of a comparison. The first has no observer.
func observedArms(b *testing.B) []observedArm {
	registry, err := steps.NewRegistry([]steps.Function{{
		Spec: steps.Spec{Name: "bench.noop", Effect: steps.Read, EffectDeclared: true}, Prompt: true,
		Call: func(context.Context, []byte) ([]byte, error) { return []byte(benchResult), nil },
	}}, nil)
	if err != nil {
		b.Fatal(err)
	}
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
	b.Cleanup(collector.Close)
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { null.Close() })
	for _, name := range []string{"OTEL_TRACES_SAMPLER", "OTEL_SDK_DISABLED", "OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"} {
		b.Setenv(name, "")
	}
	engine := func(o chain.Options) *chain.Engine {
		e, err := chain.New(&o)
		if err != nil {
			b.Fatal(err)
		}
		return e
	}
	observed := func(log *slog.Logger, endpoint string) *chain.Engine {
		b.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
		t, err := telemetry.New(&telemetry.Options{Log: log})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = t.Close(context.Background()) })
		return engine(chain.Options{Functions: t.Wrap(registry), Observer: t})
	}
	log := slog.New(slog.NewTextHandler(null, nil))
	return []observedArm{
		{"off", engine(chain.Options{Functions: registry})},
		{"metrics", observed(nil, "")},
		{"metrics+logs", observed(log, "")},
		{"traces", observed(log, collector.URL)},
	}
}
