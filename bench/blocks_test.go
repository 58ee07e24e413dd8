package bench

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/chain/journal/sqljournal"
	"github.com/onecall-mcp/onecall/internal/rawjson"
	"github.com/onecall-mcp/onecall/steps"
)

const blockBytes = 32 << 20

// blockFunctions are a function that returns a block of 32 MiB, and one that takes its bytes and counts them.
func blockFunctions(picture []byte) []steps.Function {
	return []steps.Function{
		{Spec: steps.Spec{Name: "bench.shot", Effect: steps.Read, EffectDeclared: true}, Call: func(ctx context.Context, _ []byte) ([]byte, error) {
			return steps.KeepBlock(ctx, &steps.Block{Type: "image", MIME: "image/png", Bytes: picture})
		}},
		{Spec: steps.Spec{Name: "bench.attach", EffectDeclared: true}, Call: func(_ context.Context, args []byte) ([]byte, error) {
			return fmt.Appendf(nil, `{"bytes":%d}`, len(gjson.Parse(rawjson.View(args)).Get("data").Raw)-2), nil
		}},
	}
}

func newPicture() []byte {
	picture := make([]byte, blockBytes)
	for i := range picture {
		picture[i] = byte(i * 7)
	}
	return picture
}

const attached = `{"lite":true,"steps":[{"fn":"bench.shot"},{"fn":"bench.attach","args":{"data":"$0.data"}}]}`

// BenchmarkBlock passes a block of 32 MiB from one function to the next: as a chain, without and with a journal, and by the two calls alone.
// Target: at most twice the time of the calls, and one base64 form allocated.
func BenchmarkBlock(b *testing.B) {
	picture := newPicture()
	want := fmt.Sprintf(`{"bytes":%d}`, base64.StdEncoding.EncodedLen(blockBytes))
	functions := blockFunctions(picture)
	b.Run("baseline=two-calls", func(b *testing.B) {
		for b.Loop() {
			value, err := functions[0].Call(context.Background(), nil)
			if err != nil {
				b.Fatal(err)
			}
			got, err := functions[1].Call(context.Background(), value)
			if err != nil || string(got) != want {
				b.Fatalf("got %s, %v, want %s", got, err, want)
			}
		}
	})
	for _, where := range []string{"none", "memory", "sqlite"} {
		b.Run("chain/journal="+where, func(b *testing.B) {
			engine, end, err := blockEngine(functions, where, b.TempDir())
			if err != nil {
				b.Fatal(err)
			}
			defer end()
			for b.Loop() {
				runLite(b, engine, []byte(attached), want)
			}
		})
	}
}

// blockEngine returns an engine with a journal in memory, in a SQLite file of a folder, or none.
func blockEngine(functions []steps.Function, where, folder string) (engine *chain.Engine, end func(), err error) {
	registry, err := steps.NewRegistry(functions, nil)
	if err != nil {
		return nil, nil, err
	}
	o, end := chain.Options{Functions: registry}, func() {}
	var d journal.Driver = &journal.Memory{}
	if where == "sqlite" {
		if d, err = sqljournal.OpenSQLite(filepath.Join(folder, "journal.db"), nil); err != nil {
			return nil, nil, err
		}
	}
	if where != "none" {
		if o.Journal, err = journal.New(d, nil); err != nil {
			return nil, nil, err
		}
		end = func() { o.Journal.Close() }
	}
	engine, err = chain.New(&o)
	return engine, end, err
}

const asBlockProcess = "ONECALL_BENCH_BLOCK"

// TestBlockMemory passes a block of 32 MiB from one function to the next in a separate process: beside the block itself there is one base64
// form of it, and with a journal, before that, what the journal stores, or, when a run is resumed, what it has stored. A journal in SQLite has
// memory of its own beside the heap.
func TestBlockMemory(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	measuresProcess := residentMiB() > 0 && !raceEnabled // without /proc, only the heap is measured
	for where, most := range map[string]struct{ heap, resident float64 }{
		"none": {85, 100}, "memory": {85, 100}, "sqlite": {85, 100},
		"sqlite, resumed": {115, 130}, // the block itself is another one
	} {
		command := exec.Command(self)
		command.Env = append(os.Environ(), asBlockProcess+"="+where+"\n"+t.TempDir())
		out, err := command.CombinedOutput()
		var heap, resident float64
		if _, scanned := fmt.Sscan(string(out), &heap, &resident); err != nil || scanned != nil {
			t.Fatalf("%v: %s", err, out)
		}
		t.Logf("journal %s: peak %.0f MiB on the heap beside the block, %.0f MiB of the process beside what it had", where, heap, resident)
		if heap < 40 || heap > most.heap {
			t.Errorf("journal %s: peak %.0f MiB beside the block, want at least the base64 form, 43 MiB, and at most %.0f", where, heap, most.heap)
		}
		if measuresProcess && (resident > most.resident || resident == 0) {
			t.Errorf("journal %s: peak %.0f MiB of the process, want some, and at most %.0f", where, resident, most.resident)
		}
	}
}

// passBlock prints the peak of the objects on the heap, and of the process, in MiB, beside a block that is passed on.
func passBlock(how string) error {
	debug.SetGCPercent(10) // garbage should not be measured
	where, folder, _ := strings.Cut(how, "\n")
	where, resumed := strings.CutSuffix(where, ", resumed")
	engine, end, err := blockEngine(blockFunctions(newPicture()), where, folder)
	if err != nil {
		return err
	}
	defer end()
	answer := engine.Run(context.Background(), []byte(`{"steps":[{"bench.attach":{"data":""}}]}`), nil) // opens the journal
	if !answer.OK {
		return answer.Error
	}
	chain := attached
	if resumed {
		answer = engine.Run(context.Background(), []byte(`{"steps":[{"fn":"bench.shot"},{"expr":"int('none')"},`+
			`{"fn":"bench.attach","args":{"data":"$0.data"}}]}`), nil)
		chain = fmt.Sprintf(`{"lite":true,"resume":%q,"replace":{"1":{"expr":"1"}}}`, answer.Run)
	}
	heap, resident := peakOf(func() { answer = engine.Run(context.Background(), []byte(chain), nil) })
	if !answer.OK {
		return answer.Error
	}
	fmt.Println(heap, resident)
	return nil
}

// peakOf returns the most MiB of objects on the heap, and of the process, while f runs, beside those before.
func peakOf(f func()) (heap, resident float64) {
	debug.FreeOSMemory()
	heapBefore, residentBefore, stop, ended := heapMiB(), residentMiB(), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				heap, resident = max(heap, heapMiB()-heapBefore), max(resident, residentMiB()-residentBefore)
			case <-stop:
				return
			}
		}
	}()
	f()
	close(stop)
	<-ended
	return heap, resident
}

// residentMiB is 0 on systems without /proc.
func residentMiB() float64 {
	var size, pages float64
	text, _ := os.ReadFile("/proc/self/statm")
	_, _ = fmt.Sscan(string(text), &size, &pages)
	return pages * float64(os.Getpagesize()) / (1 << 20)
}

func heapMiB() float64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return float64(sample[0].Value.Uint64()) / (1 << 20)
}
