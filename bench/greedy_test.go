package bench

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/internal/admit"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/source/exprs"
)

// BenchmarkGreedy is the small chain of one caller while another runs 16 chains of 16 large expressions at once: with turns
// and, as the baseline, with a turn for whoever comes.
func BenchmarkGreedy(b *testing.B) {
	for _, arm := range []struct {
		name   string
		places int
		greedy int
	}{{"alone", runtime.GOMAXPROCS(0), 0}, {"turns", runtime.GOMAXPROCS(0), 16}, {"no turns", 1 << 20, 16}} {
		b.Run(arm.name, func(b *testing.B) {
			registry, faults := steps.NewRegistry(exprs.New().Functions(), nil)
			if faults != nil {
				b.Fatal(faults)
			}
			e, err := chain.New(&chain.Options{Functions: registry, Shares: admit.New(arm.places)})
			if err != nil {
				b.Fatal(err)
			}
			stop := beGreedy(e, arm.greedy)
			defer stop()
			var took []time.Duration
			var memory runtime.MemStats
			most := uint64(0)
			for b.Loop() {
				started := time.Now()
				a := e.Run(context.Background(), []byte(`{"steps":[{"fn":"expr.eval","args":{"expression":"1 + 1"}}],"lite":true}`), &chain.Caller{ID: "modest"})
				took = append(took, time.Since(started))
				if string(a.JSON) != "2" {
					b.Fatalf("%s", a.JSON)
				}
				time.Sleep(5 * time.Millisecond)
				if len(took)%16 == 0 {
					runtime.ReadMemStats(&memory)
					most = max(most, memory.HeapInuse)
				}
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
			b.ReportMetric(float64(most>>20), "heap-MiB")
			b.ReportMetric(0, "ns/op") // most of which is sleep
		})
	}
}

// largeOnes is a chain of 16 large expressions.
func largeOnes() []byte {
	var all []string
	for i := range 16 {
		all = append(all, fmt.Sprintf(`{"fn":"expr.eval","args":{"expression":"len(filter(1..900000, # %% 7 == %d))"}}`, i%7))
	}
	return []byte(`{"steps":[` + strings.Join(all, ",") + `],"lite":true}`)
}

// beGreedy runs so many chains at once, over and over, until it is stopped.
func beGreedy(e *chain.Engine, chains int) (stop func()) {
	request := largeOnes()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for range chains {
		running.Go(func() {
			for ctx.Err() == nil {
				e.Run(ctx, request, &chain.Caller{ID: "greedy"})
			}
		})
	}
	if chains > 0 {
		time.Sleep(time.Second) // until all of them are at work
	}
	return func() {
		cancel()
		running.Wait()
	}
}
