package bench

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
)

// BenchmarkBatch runs 10,000 small replayed chains, two at a time. Target: 50,000 steps a second, memory flat.
func BenchmarkBatch(b *testing.B) {
	const chains, stepsOfEach, jobs = 10_000, 5, 2
	var tape bytes.Buffer
	requests := make([][]byte, chains)
	for i := range chains {
		fmt.Fprintf(&tape, `{"fn":"shop.find","args":{"n":%d},"result":{"id":"id-%d","items":[1,2,3]},"chain":"c%d","effect":"read"}`+"\n", i, i,
			i)
		fmt.Fprintf(&tape, `{"fn":"shop.get","args":{"id":"id-%d"},"result":{"total":%d},"chain":"c%d"}`+"\n", i, i, i)
		requests[i] = fmt.Appendf(nil, `{"name":"c%d","lite":true,"steps":[{"fn":"shop.find","args":{"n":%d}},{"fn":"shop.get","args":{"id":"$0.id"}},`+
			`{"fn":"shop.get","args":{"id":"$0.id"}},{"fn":"shop.find","args":{"n":"$1.total"}},{"fn":"shop.get","args":{"id":"$3.id"}}]}`, i, i)
	}
	engine, cassette := newReplay(b, tape.Bytes(), nil)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for b.Loop() {
		next := make(chan int)
		var all sync.WaitGroup
		for range jobs {
			all.Go(func() {
				for i := range next {
					answer := engine.Run(cassette.Cursor(context.Background(), fmt.Sprintf("c%d", i)), requests[i], nil)
					if want := fmt.Sprintf(`{"total":%d}`, i); string(answer.JSON) != want {
						b.Errorf("chain %d answered %s, want %s", i, answer.JSON, want)
					}
				}
			})
		}
		for i := range chains {
			next <- i
		}
		close(next)
		all.Wait()
	}
	b.ReportMetric(float64(b.N)*chains*stepsOfEach/b.Elapsed().Seconds(), "steps/s")
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(int64(after.HeapAlloc)-int64(before.HeapAlloc))/1024, "KB-kept")
	runtime.KeepAlive(engine)
	runtime.KeepAlive(cassette)
	runtime.KeepAlive(requests)
}
