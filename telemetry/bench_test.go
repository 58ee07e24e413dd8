package telemetry_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/telemetry"
)

// tenSteps is a chain of ten steps, each of which refers to the one before.
func tenSteps() []byte {
	var b bytes.Buffer
	b.WriteString(`{"steps":[{"fn":"bench.noop","args":{"id":"x","value":1}}`)
	for i := range 9 {
		fmt.Fprintf(&b, `,{"fn":"bench.noop","args":{"id":"$%d.id","value":"$%d.value"}}`, i, i)
	}
	b.WriteString(`]}`)
	return b.Bytes()
}

// BenchmarkObserved runs a chain of ten no-ops in process: nothing observed, metrics and logs at the level info, and traces to a
// collector on loopback besides. The arms take turns, a few chains each, so that what else the machine does hits all alike;
// what is told of each is the median turn, in ns/chain, and a step's share of what it has more than nothing.
func BenchmarkObserved(b *testing.B) {
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
	defer collector.Close()
	for _, name := range []string{"OTEL_TRACES_SAMPLER", "OTEL_SDK_DISABLED", "OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"} {
		b.Setenv(name, "")
	}
	registry, err := steps.NewRegistry([]steps.Function{{
		Spec: steps.Spec{Name: "bench.noop", Effect: steps.Read, EffectDeclared: true},
		Call: func(context.Context, []byte) ([]byte, error) { return []byte(`{"id":"a-1","value":7}`), nil },
	}}, nil)
	if err != nil {
		b.Fatal(err)
	}
	log, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer log.Close()
	engine := func(endpoint string) *chain.Engine {
		b.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
		t, err := telemetry.New(&telemetry.Options{Log: slog.New(slog.NewTextHandler(log, nil))})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = t.Close(context.Background()) })
		e, err := chain.New(&chain.Options{Functions: t.Wrap(registry), Observer: t})
		if err != nil {
			b.Fatal(err)
		}
		return e
	}
	off, err := chain.New(&chain.Options{Functions: registry})
	if err != nil {
		b.Fatal(err)
	}
	arms := []struct {
		name   string
		engine *chain.Engine
		turns  []time.Duration
	}{{name: "off", engine: off}, {name: "metrics+logs", engine: engine("")}, {name: "traces", engine: engine(collector.URL)}}
	const turn = 5
	request := tenSteps()
	for b.Loop() {
		for i := range arms {
			started := time.Now()
			for range turn {
				if answer := arms[i].engine.Run(context.Background(), request, nil); !answer.OK {
					b.Fatal(string(answer.JSON))
				}
			}
			arms[i].turns = append(arms[i].turns, time.Since(started))
		}
	}
	median := func(turns []time.Duration) float64 {
		slices.Sort(turns)
		return float64(turns[len(turns)/2].Nanoseconds()) / turn
	}
	least := median(arms[0].turns)
	b.ReportMetric(least, "off-ns/chain")
	for _, arm := range arms[1:] {
		ns := median(arm.turns)
		b.ReportMetric(ns, arm.name+"-ns/chain")
		b.ReportMetric((ns-least)/10, arm.name+"-ns/step-more")
	}
}
