package bench

import (
	"context"
	"fmt"
	"runtime/metrics"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/internal/admit"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/source/exprs"
)

// BenchmarkGreedy runs a chain of one caller, light or of some 30 ms of work, alone and while other callers each run 16 chains of
// 16 large expressions at once.
func BenchmarkGreedy(b *testing.B) {
	for _, work := range []struct{ name, expression, want string }{
		{"light", "1 + 1", "2"},
		{"30ms", "len(filter(1..300000, # % 7 == 3))", "42857"},
	} {
		for _, greedy := range []int{0, 1, 8} {
			b.Run(work.name+"/greedy="+strconv.Itoa(greedy), func(b *testing.B) {
				e, stop := newBusyEngine(b, greedy)
				defer stop()
				request := fmt.Appendf(nil, `{"steps":[{"fn":"expr.eval","args":{"expression":%q}}],"lite":true}`, work.expression)
				var took []time.Duration
				maximum := uint64(0)
				for b.Loop() {
					started := time.Now()
					a := e.Run(context.Background(), request, &chain.Caller{ID: "modest"})
					took = append(took, time.Since(started))
					if string(a.JSON) != work.want {
						b.Fatalf("got %s, want %s", a.JSON, work.want)
					}
					maximum = max(maximum, heapInUse())
					time.Sleep(5 * time.Millisecond)
				}
				slices.Sort(took)
				b.ReportMetric(took[len(took)/2].Seconds()*1000, "p50-ms")
				b.ReportMetric(took[len(took)*99/100].Seconds()*1000, "p99-ms")
				b.ReportMetric(float64(maximum)/1e6, "heap-MB")
				b.ReportMetric(0, "ns/op") // most of which is sleep
			})
		}
	}
}

// newBusyEngine returns an engine that greedy callers keep busy until stop is called.
func newBusyEngine(b *testing.B, callers int) (e *chain.Engine, stop func()) {
	registry, faults := steps.NewRegistry(exprs.New().Functions(), nil)
	if faults != nil {
		b.Fatal(faults)
	}
	e, err := chain.New(&chain.Options{Functions: registry, Admission: admit.Default()})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	request := largeChain()
	var running, starting sync.WaitGroup
	for i := range callers {
		starting.Add(1)
		once := sync.OnceFunc(starting.Done)
		for range 16 {
			running.Go(func() {
				for ctx.Err() == nil {
					e.Run(ctx, request, &chain.Caller{ID: fmt.Sprint("greedy", i)})
					once()
				}
			})
		}
	}
	starting.Wait() // until each has got one answer
	return e, func() {
		cancel()
		running.Wait()
	}
}

// largeChain returns a chain of 16 large expressions.
func largeChain() []byte {
	var all []string
	for i := range 16 {
		all = append(all, fmt.Sprintf(`{"fn":"expr.eval","args":{"expression":"len(filter(1..900000, # %% 7 == %d))"}}`, i%7))
	}
	return []byte(`{"steps":[` + strings.Join(all, ",") + `],"lite":true}`)
}

// heapInUse is like runtime.MemStats.HeapInuse, without stopping the world.
func heapInUse() uint64 {
	samples := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/unused:bytes"}}
	metrics.Read(samples)
	return samples[0].Value.Uint64() + samples[1].Value.Uint64()
}
