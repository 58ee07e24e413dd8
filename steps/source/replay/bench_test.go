package replay_test

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/source/replay"
)

const benchChains, benchCalls = 10_000, 5

// benchRecording returns five calls of each of 10,000 chains: the calls of a small pipeline with arguments of about 80 bytes
// and results of about 200.
func benchRecording() []byte {
	var file bytes.Buffer
	for i := range benchChains {
		for n := range benchCalls {
			fmt.Fprintf(&file, `{"fn":"shop.step%d","args":{"order":"order-%06d","items":[%d,2,3],"note":"some words"},"result":%s,`+
				`"chain":"chains.jsonl:%d"}`+"\n",
				n, i, n, benchResult(i), i)
		}
	}
	return file.Bytes()
}

func benchResult(i int) string {
	return fmt.Sprintf(`{"id":%d,"status":"shipped","lines":[{"sku":"A-1","count":2,"price":1.10},{"sku":"B-2","count":1,`+
		`"price":20.00}],"address":{"city":"Bern","street":"Some Street 1"}}`, i)
}

// BenchmarkReplay runs all chains in two goroutines; calls/s is the relevant figure. The baseline answers the same calls with a function
// that already has its answers.
func BenchmarkReplay(b *testing.B) {
	c, err := replay.Read(bytes.NewReader(benchRecording()), "bench")
	if err != nil {
		b.Fatal(err)
	}
	replayed := mustRegistry(b, c, baseRegistry(b))
	answer := []byte(benchResult(0))
	var fns []steps.Function
	for n := range benchCalls {
		fns = append(fns, steps.Function{Spec: steps.Spec{Name: fmt.Sprintf("shop.step%d", n)},
			Call: func(context.Context, []byte) ([]byte, error) { return answer, nil }})
	}
	direct, err := steps.NewRegistry(fns, nil)
	if err != nil {
		b.Fatal(err)
	}
	for _, arm := range []struct {
		name     string
		registry *steps.Registry
		check    bool
	}{{"replay", replayed, true}, {"baseline/no-op", direct, false}} {
		b.Run(arm.name, func(b *testing.B) {
			entries := arm.registry.All()
			for b.Loop() {
				var wg sync.WaitGroup
				for job := range 2 {
					wg.Go(func() {
						for i := job; i < benchChains; i += 2 {
							ctx := c.Cursor(b.Context(), fmt.Sprintf("chains.jsonl:%d", i))
							for n, entry := range entries {
								args := fmt.Appendf(nil, `{"items":[%d.0,2,3],"note":"some words","order":"order-%06d"}`, n, i)
								result, err := entry.Call(ctx, args)
								if err != nil || arm.check && string(result) != benchResult(i) {
									b.Errorf("got %s, %v, want %s", result, err, benchResult(i))
									return
								}
							}
						}
					})
				}
				wg.Wait()
			}
			b.ReportMetric(float64(b.N)*benchChains*benchCalls/b.Elapsed().Seconds(), "calls/s")
		})
	}
}

func BenchmarkRead(b *testing.B) {
	file := benchRecording()
	b.SetBytes(int64(len(file)))
	for b.Loop() {
		c, err := replay.Read(bytes.NewReader(file), "bench")
		if err != nil || mustRegistry(b, c, baseRegistry(b)).Len() != benchCalls {
			b.Fatal(err)
		}
	}
}

// BenchmarkNotRecorded makes calls that are not recorded, of a function of which the chain sees one recorded call or a thousand. The
// baseline makes such calls after the number for which suggestions are searched.
func BenchmarkNotRecorded(b *testing.B) {
	file := benchRecording()
	for n := range 1000 {
		file = fmt.Appendf(file, `{"fn":"shop.all","args":{"order":"order-%06d","items":[%d,2,3],"note":"some words"},"result":1}`+"\n", n, n)
	}
	c, err := replay.Read(bytes.NewReader(file), "bench")
	if err != nil {
		b.Fatal(err)
	}
	registry := mustRegistry(b, c, baseRegistry(b))
	for _, arm := range []struct {
		name, fn string
		misses   int
	}{{"of one", "shop.step0", 0}, {"of a thousand", "shop.all", 0}, {"baseline/without suggestions", "shop.all", 20}} {
		b.Run(arm.name, func(b *testing.B) {
			entry, err := registry.Resolve(arm.fn)
			if err != nil {
				b.Fatal(err)
			}
			ctx := c.Cursor(b.Context(), "chains.jsonl:7")
			for range arm.misses {
				_, _ = entry.Call(ctx, []byte(`{}`))
			}
			for b.Loop() {
				if arm.misses == 0 {
					ctx = c.Cursor(b.Context(), "chains.jsonl:7")
				}
				_, err := entry.Call(ctx, []byte(`{"order":"order-000007","items":[9],"note":"other"}`))
				if f, ok := fault.As(err); !ok || (len(f.Nearest) == 0) != (arm.misses > 0) {
					b.Fatalf("got %v, want a fault, with what is nearest unless there are misses", err)
				}
			}
		})
	}
}
