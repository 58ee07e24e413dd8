//go:build unix

package bench

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/bench/load"
	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/budget/memstore"
	"github.com/onecall-mcp/onecall/budget/pgstore"
	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/internal/auth"
	"github.com/onecall-mcp/onecall/internal/sqldb/postgrestest"
	"github.com/onecall-mcp/onecall/internal/telemetry"
	"github.com/onecall-mcp/onecall/steps"
)

// maxExtraRatio is the ratio of a chain's time with an extra to its time without it above which something is certainly wrong. The target is
// 1.05, which a busy machine misses by far.
const maxExtraRatio = 1.25

// benchmarkExtra compares a server with an extra to one without, under the load of a few clients. It compares processor time, including
// that of the clients, because other processes of the machine affect wall time.
func benchmarkExtra(b *testing.B, without, with func(version string) load.Target) {
	const clients, rounds, calls = 8, 15, 400
	for _, version := range []string{load.WithSessions, load.WithoutSessions} {
		b.Run(version, func(b *testing.B) {
			off, on := newLoaded(b, without(version), clients), newLoaded(b, with(version), clients)
			for b.Loop() {
				wall := compare(b, rounds, calls, off.arm(clients), on.arm(clients))
				ratio := compareCPU(b, rounds, calls, off.arm(clients), on.arm(clients))
				b.ReportMetric(ratio, "cpu-ratio")
				b.ReportMetric(wall, "ratio")
				if ratio > maxExtraRatio {
					b.Errorf("a chain takes %.2f times its time without, want at most %.2f", ratio, maxExtraRatio)
				}
			}
		})
	}
}

// compareCPU is compare with the processor time of this process.
func compareCPU(b *testing.B, rounds, n int, baseline, measured arm) float64 {
	b.Helper()
	used := func(a arm) float64 {
		runtime.GC() // garbage of the other arm must not count
		before := cpuTime(b)
		a(b, n)
		return float64(cpuTime(b) - before)
	}
	var ratios []float64
	for round := range rounds {
		var off, on float64
		if round%2 == 0 {
			off, on = used(baseline), used(measured)
		} else {
			on, off = used(measured), used(baseline)
		}
		ratios = append(ratios, on/off)
	}
	slices.Sort(ratios)
	return ratios[rounds/2]
}

func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkRights is what it costs to know callers by their tokens, of which there are a thousand, with a list of functions each.
func BenchmarkRights(b *testing.B) {
	off := serveLoad(b, &serverOptions{functions: []steps.Function{nothing()}})
	var tokens []auth.Token
	for i := range 1000 {
		hash := sha256.Sum256([]byte(tokenOf(i)))
		tokens = append(tokens, auth.Token{Name: fmt.Sprint("caller", i), SHA256: hex.EncodeToString(hash[:]),
			Rights: steps.Rights{Tier: steps.TierReadWrite, Functions: fmt.Sprintf("bench.* other%d.*", i%10)}})
	}
	table, faults := auth.New(&auth.Options{Tokens: tokens})
	if len(faults) > 0 {
		b.Fatal(faults)
	}
	b.Cleanup(table.Close)
	on := serveLoad(b, &serverOptions{functions: []steps.Function{nothing()}, callers: table})
	benchmarkExtra(b, func(version string) load.Target { return chainLoad(off, version) }, func(version string) load.Target {
		target := chainLoad(on, version)
		target.Token = tokenOf(500)
		return target
	})
}

func tokenOf(i int) string { return fmt.Sprintf("a-token-of-a-caller-%030d", i) }

// BenchmarkMetrics is what it costs to count and time each chain, step and call, and to log chains to nowhere.
func BenchmarkMetrics(b *testing.B) {
	off := serveLoad(b, &serverOptions{functions: []steps.Function{nothing()}})
	t, err := telemetry.New(&telemetry.Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = t.Close(context.Background()) })
	on := serveLoad(b, &serverOptions{functions: []steps.Function{nothing()}, observer: t, wrap: t.Wrap})
	benchmarkExtra(b, func(version string) load.Target { return chainLoad(off, version) }, func(version string) load.Target {
		return chainLoad(on,
			version)
	})
}

// BenchmarkProbeStores measures what it takes to answer a large result with a probe, kept in the real PostgreSQL and in memory.
func BenchmarkProbeStores(b *testing.B) {
	const rounds, probes = 11, 100
	large := steps.Function{
		Spec: steps.Spec{Name: "bench.large", Effect: steps.Read, Input: json.RawMessage(`{"type":"object"}`)}, Prompt: true,
		Call: func() steps.Call {
			items := make([]map[string]any, 500)
			for i := range items {
				items[i] = map[string]any{"id": i, "name": fmt.Sprint("item ", i), "note": "some words that stand in each of them"}
			}
			text, _ := json.Marshal(items) // never fails for maps of texts and numbers
			return func(context.Context, []byte) ([]byte, error) { return text, nil }
		}(),
	}
	engine := func(driver budget.Driver) *chain.Engine {
		results, err := budget.NewResults(driver, nil)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { results.Close() })
		registry, err := steps.NewRegistry([]steps.Function{large}, nil)
		if err != nil {
			b.Fatal(err)
		}
		e, err := chain.New(&chain.Options{Functions: registry, Results: results, MaxTotalTokens: 2000})
		if err != nil {
			b.Fatal(err)
		}
		return e
	}
	memory, err := memstore.New(nil)
	if err != nil {
		b.Fatal(err)
	}
	shared, err := pgstore.New(&pgstore.Options{URL: postgrestest.Start(b).Database(b)})
	if err != nil {
		b.Fatal(err)
	}
	engines := []*chain.Engine{engine(memory), engine(shared)}
	probe := func(e *chain.Engine) time.Duration {
		began := time.Now()
		answer := e.Run(b.Context(), []byte(`{"lite":true,"steps":[{"fn":"bench.large"}]}`), nil)
		took := time.Since(began)
		if gjson.GetBytes(answer.JSON, "continuation_token").Str == "" {
			b.Fatalf("got %s, want a probe with a continuation_token", answer.JSON)
		}
		return took
	}
	for b.Loop() {
		var medians [2][]float64
		for range rounds {
			for i, e := range engines {
				var took []time.Duration
				for range probes {
					took = append(took, probe(e))
				}
				slices.Sort(took)
				medians[i] = append(medians[i], float64(took[probes/2].Microseconds()))
			}
		}
		slices.Sort(medians[0])
		slices.Sort(medians[1])
		b.ReportMetric(medians[0][rounds/2], "memory-p50-µs")
		b.ReportMetric(medians[1][rounds/2], "postgres-p50-µs")
		if extra := medians[1][rounds/2] - medians[0][rounds/2]; extra > 5000 { // of which the disk takes most
			b.Errorf("a probe stored in PostgreSQL takes %.0f µs more than in memory, want at most 5000", extra)
		}
	}
}
