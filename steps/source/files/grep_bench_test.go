package files_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/build"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/onecall-mcp/onecall/steps/source/files"
)

// BenchmarkGrep searches the Go module cache, tens of thousands of files, and compares with ripgrep on the same files. The counts of
// matching lines and of files must be equal. Each arm's time is a metric of the same run: rounds alternate.
func BenchmarkGrep(b *testing.B) {
	tree := moduleCache(b)
	if _, err := exec.LookPath("rg"); err != nil {
		b.Skip("rg is not installed")
	}
	s, err := files.New(&files.Options{Root: tree})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	for _, c := range []struct{ name, pattern string }{
		{"literal", `ServeHTTP`},
		{"literal-common", `return`},
		{"literal-regexp", `func \w+Handler\(`},
		{"alternatives", `TODO|FIXME`},
		{"ignore-case", `(?i)unmarshaljson`},
		{"no-literal", `[0-9]{5,}`},
	} {
		b.Run(c.name, func(b *testing.B) {
			var ours, theirs time.Duration
			for b.Loop() {
				start := time.Now()
				count, files := onecallCount(b, s, c.pattern)
				ours += time.Since(start)
				start = time.Now()
				rgCount, rgFiles := rgCount(b, tree, c.pattern)
				theirs += time.Since(start)
				if count == 0 || count != rgCount || files != rgFiles {
					b.Fatalf("got %d lines in %d files, want %d in %d as rg", count, files, rgCount, rgFiles)
				}
			}
			n := float64(b.N)
			b.ReportMetric(ours.Seconds()*1000/n, "onecall-ms/op")
			b.ReportMetric(theirs.Seconds()*1000/n, "rg-ms/op")
			b.ReportMetric(ours.Seconds()/theirs.Seconds(), "ratio")
		})
	}
}

// moduleCache returns a large tree of source files that exists on every machine that builds this module.
func moduleCache(b *testing.B) string {
	tree := cmp.Or(os.Getenv("GOMODCACHE"), filepath.Join(build.Default.GOPATH, "pkg", "mod"))
	if entries, err := os.ReadDir(filepath.Join(tree, "github.com")); err != nil || len(entries) == 0 {
		b.Skip("the Go module cache is empty")
	}
	return tree
}

func onecallCount(b *testing.B, s *files.Source, pattern string) (count, files int) {
	args, err := json.Marshal(map[string]any{"pattern": pattern})
	if err != nil {
		b.Fatal(err)
	}
	for _, f := range s.Functions() {
		if f.Name != "fs.grep" {
			continue
		}
		raw, err := f.Call(context.Background(), args)
		if err != nil {
			b.Fatal(err)
		}
		var result struct{ Count, FileCount int }
		if err := json.Unmarshal(raw, &result); err != nil {
			b.Fatal(err)
		}
		return result.Count, result.FileCount
	}
	b.Fatal(errors.New("the source has no fs.grep"))
	return 0, 0
}

// rgCount runs ripgrep with the behavior of fs.grep: .gitignore files apply even without a repository, and ripgrep's own and the user's
// ignore files do not.
func rgCount(b *testing.B, tree, pattern string) (count, files int) {
	cmd := exec.Command("rg", "--no-config", "--no-require-git", "--no-ignore-dot", "--no-ignore-global", "-c", "--", pattern, ".")
	cmd.Dir = tree
	out, err := cmd.Output()
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		n, err := strconv.Atoi(strings.TrimSpace(line[strings.LastIndexByte(line, ':')+1:]))
		if err != nil {
			b.Fatal(fmt.Errorf("rg: %w", err))
		}
		count += n
		files++
	}
	return count, files
}
