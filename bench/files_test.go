package bench

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/source/files"
)

// BenchmarkFilesInChain compares a chain of one step of fs.grep, fs.find or fs.cat with the bare work: the standard library's walk, read and
// match in this process. Both arms see the same files, and must find as much.
func BenchmarkFilesInChain(b *testing.B) {
	const root, rounds = "../steps", 100
	source, err := files.New(&files.Options{Root: root})
	if err != nil {
		b.Fatal(err)
	}
	defer source.Close()
	registry, err := steps.NewRegistry(source.Functions(), nil)
	if err != nil {
		b.Fatal(err)
	}
	engine, err := chain.New(&chain.Options{Functions: registry})
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range []struct {
		step, count string
		bare        func() int
	}{
		{`{"fn":"fs.grep","args":{"pattern":"func New\\w*\\(","hidden":true,"ignored":true,"limit":100000}}`, "$0.count", bareGrep(root, `func New\w*\(`)},
		{`{"fn":"fs.find","args":{"pattern":"*_test.go","hidden":true,"ignored":true,"limit":100000}}`, "$0.count", bareFind(root, "*_test.go")},
		{`{"fn":"fs.cat","args":{"path":"function.go"}}`, "$0.size", bareCat(root + "/function.go")},
	} {
		request := []byte(`{"lite":true,"steps":[` + c.step + `],"return":"` + c.count + `"}`)
		b.Run(gjson.Get(c.step, "fn").Str, func(b *testing.B) {
			var bare, measured []time.Duration
			for b.Loop() {
				for range rounds {
					started := time.Now()
					want := c.bare()
					bare = append(bare, time.Since(started))
					started = time.Now()
					answer := engine.Run(b.Context(), request, nil)
					measured = append(measured, time.Since(started))
					if got := string(answer.JSON); want == 0 || got != fmt.Sprint(want) {
						b.Fatalf("got %.200s, want %d", got, want)
					}
				}
			}
			slices.Sort(bare)
			slices.Sort(measured)
			b.ReportMetric(bare[len(bare)/2].Seconds()*1000, "bare-p50-ms")
			b.ReportMetric(measured[len(measured)/2].Seconds()*1000, "chain-p50-ms")
			b.ReportMetric(p95(bare), "bare-p95-ms")
			b.ReportMetric(p95(measured), "chain-p95-ms")
			b.ReportMetric(p95(measured)-p95(bare), "over-p95-ms")
		})
	}
}

// p95 returns the time in ms that 95 of 100 sorted durations do not exceed.
func p95(all []time.Duration) float64 {
	return all[len(all)*95/100].Seconds() * 1000
}

// bareFiles calls visit with each file below a folder but those in .git.
func bareFiles(root string, visit func(name string)) {
	_ = filepath.WalkDir(root, func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.Name() == ".git":
			return fs.SkipDir
		case e.Type().IsRegular():
			visit(name)
		}
		return nil
	})
}

func bareGrep(root, pattern string) func() int {
	re := regexp.MustCompile(pattern)
	return func() (count int) {
		bareFiles(root, func(name string) {
			text, err := os.ReadFile(name)
			if err != nil || bytes.IndexByte(text, 0) >= 0 {
				return
			}
			for line := range bytes.Lines(text) {
				if re.Match(line) {
					count++
				}
			}
		})
		return count
	}
}

func bareFind(root, pattern string) func() int {
	return func() (count int) {
		bareFiles(root, func(name string) {
			if matches, _ := path.Match(pattern, filepath.Base(name)); matches {
				count++
			}
		})
		return count
	}
}

func bareCat(name string) func() int {
	return func() int {
		text, _ := os.ReadFile(name)
		return len(text)
	}
}
