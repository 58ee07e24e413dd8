// Package work holds what the comparison runs in separate processes: measurements of onecall and its baselines as one size grows, servers,
// and clients that load them.
package work

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/proc"
)

// Samples are measured numbers, by name: one for each round, or one for all.
type Samples map[string][]float64

// Main runs one command: the name of a measurement with a size and a number of rounds, a server, or a client with its target.
// Measurements write Samples as JSON. A wrong answer during a measurement is an error.
func Main(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	if len(args) == 0 {
		return fmt.Errorf("no command")
	}
	switch args[0] {
	case "serve", "upstream":
		ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM)
		defer stop()
		return map[string]func(context.Context, io.Writer) error{"serve": serve, "upstream": upstream}[args[0]](ctx, out)
	case "load":
		return loadClients(ctx, args[1:], in, out)
	}
	measure, ok := measurements[args[0]]
	if !ok || len(args) != 3 {
		return fmt.Errorf("worker %v: want serve, upstream, load, or a measurement with its size and rounds", args)
	}
	size, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	rounds, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	samples := Samples{}
	if err := measure(ctx, size, rounds, samples); err != nil {
		return fmt.Errorf("%s of %d: %w", args[0], size, err)
	}
	return json.NewEncoder(out).Encode(samples)
}

// measurements measure one size, in rounds in which the arms take turns.
var measurements = map[string]func(ctx context.Context, size, rounds int, s Samples) error{
	"functions": functions, "steps": chainOfSteps, "elements": elements, "bytes": resultOfBytes,
}

func (s Samples) add(name string, value float64) { s[name] = append(s[name], value) }

// timed adds the time that f takes, in milliseconds. It repeats a short f until minTime has passed, and adds the mean.
func (s Samples) timed(name string, f func() error) error {
	began := time.Now()
	for n := 1; ; n++ {
		if err := f(); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if took := time.Since(began); took >= minTime {
			s.add(name, took.Seconds()*1000/float64(n))
			return nil
		}
	}
}

// minTime is long compared with the resolution of a clock, and short compared with a round.
const minTime = 5 * time.Millisecond

// once adds the time of a single f, in milliseconds.
func (s Samples) once(name string, f func() error) error {
	began := time.Now()
	err := f()
	s.add(name, time.Since(began).Seconds()*1000)
	return err
}

// liveHeap returns the number of reachable bytes.
func liveHeap() float64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

const megabyte = 1 << 20

// peak adds the peak memory of this process so far, in MB, if the system reports it.
func (s Samples) peak(name string) {
	if u, err := proc.Self(); err == nil {
		s.add(name, float64(u.Peak)/megabyte)
	}
}
