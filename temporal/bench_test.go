//go:build unix

package temporal_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onecall-mcp/onecall/internal/cli/clitest"
)

// BenchmarkDurable measures durable runs as users run them: whole commands, with real servers. It checks each answer.
func BenchmarkDurable(b *testing.B) {
	s := newStack(b, "")
	s.startWorker(b)

	// The cost of a batch itself: its chains call no service.
	const many = 10_000
	var lines strings.Builder
	for i := range many {
		fmt.Fprintf(&lines, `{"steps":[{"fn":"expr.eval","args":{"expression":"1+%d"}},{"fn":"expr.eval","args":{"expression":"x+1","vars":{"x":"$0"}}}]}`+"\n", i)
	}
	clitest.Write(b, s.home, "many.jsonl", lines.String())
	b.Run("batch", func(b *testing.B) {
		for b.Loop() {
			took := s.timeBatch(b, "many.jsonl", many)
			b.ReportMetric(many/took.Seconds(), "chains/s")
		}
	})

	// Four workers against one, with a service that takes 50 ms.
	const few = 2000
	clitest.Write(b, s.home, "few.jsonl",
		strings.Repeat(`{"steps":[{"fn":"http.read","args":{"id":"x"}},{"fn":"http.read","args":{"id":"$0.id"}}]}`+"\n", few))
	one := s.timeBatch(b, "few.jsonl", few)
	for range 3 {
		s.startWorker(b)
	}
	b.Run("four-workers", func(b *testing.B) {
		for b.Loop() {
			b.ReportMetric(one.Seconds()/s.timeBatch(b, "few.jsonl", few).Seconds(), "x-of-one")
		}
	})

	// A chain of ten dependent calls, against the same in the command's own process.
	steps := []string{`{"fn":"http.read","args":{"id":"x"}}`}
	for i := range 9 {
		steps = append(steps, fmt.Sprintf(`{"fn":"http.read","args":{"id":"$%d.id"}}`, i))
	}
	clitest.Write(b, s.home, "ten.json", `{"steps":[`+strings.Join(steps, ",")+`]}`)
	b.Run("ten-calls", func(b *testing.B) {
		var added []time.Duration
		for b.Loop() {
			direct, durable := s.timeCommand(b, "run", "ten.json"), s.timeCommand(b, "run", "--durable", "ten.json")
			added = append(added, durable-direct)
		}
		slices.Sort(added)
		b.ReportMetric(float64(added[len(added)/2].Milliseconds()), "added-ms")
	})

	// From the kill of the only worker that has begun a chain until its answer, with another worker ready.
	b.Run("recovery", func(b *testing.B) {
		for b.Loop() {
			for _, w := range s.workers {
				w.kill()
			}
			s.workers = nil
			doomed := s.startWorker(b)
			begun, dead, killed := make(chan struct{}), make(chan struct{}), make(chan time.Time, 1)
			s.poison(func() {
				s.poison(nil)
				close(begun)
				<-dead // the doomed worker gets no answer
			})
			go func() {
				<-begun
				s.startWorker(b)
				doomed.kill()
				killed <- time.Now()
				close(dead)
			}()
			clitest.Write(b, s.home, "slow.json", `{"steps":[{"fn":"http.read","args":{"id":"poison"}}]}`)
			s.timeCommand(b, "run", "--durable", "slow.json")
			b.ReportMetric(time.Since(<-killed).Seconds(), "s")
		}
	})
}

// timeBatch runs a batch whose chains all end ok, and returns how long that took.
func (s *stack) timeBatch(b *testing.B, file string, n int) time.Duration {
	b.Helper()
	took := s.timeCommand(b, "run", "--durable", file, "--out", s.home+"/out.jsonl")
	text, err := os.ReadFile(s.home + "/out.jsonl")
	if ok := strings.Count(string(text), `"ok":true`); err != nil || ok != n {
		b.Fatalf("%d chains ok, want %d: %v", ok, n, err)
	}
	return took
}

// timeCommand runs a command that succeeds, and returns how long that took.
func (s *stack) timeCommand(b *testing.B, args ...string) time.Duration {
	b.Helper()
	began := time.Now()
	if out, message, status := s.run(b, args...); status != "0" {
		b.Fatalf("%v: got exit %s, want 0: %.300s%.300s", args, status, out, message)
	}
	return time.Since(began)
}
