// Package work holds what the comparison runs in separate processes: measurements of onecall and its baselines as one size grows, servers,
// and clients that load them.
package work

import (
	"context"
	"encoding/json"
	"io"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/harness"
	"github.com/onecall-mcp/onecall/bench/cmd/compare/proc"
	"github.com/onecall-mcp/onecall/budget"
)

// Samples are measured numbers, by name: one for each round, or one for all.
type Samples map[string][]float64

// Main runs one command: the name of a measurement with a size and a number of rounds, a server, or a client with its target.
// Measurements write Samples as JSON. A wrong answer during a measurement is an error. Servers and clients answer each line of in.
func Main(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	return harness.Try(func() {
		switch {
		case len(args) == 2 && args[0] == "load":
			loadClients(ctx, args[1], in, out)
		case len(args) == 1 && servers[args[0]] != nil:
			ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM)
			defer stop()
			servers[args[0]](ctx, in, out)
		case len(args) == 3 && measurements[args[0]] != nil:
			samples := Samples{}
			samples.measure(ctx, measurements[args[0]], harness.Must(strconv.Atoi(args[1])), harness.Must(strconv.Atoi(args[2])))
			harness.Check(json.NewEncoder(out).Encode(samples))
		default:
			harness.Fail("worker %v: want a server, load with a target, or a measurement with its size and rounds", args)
		}
	})
}

// arm is one of the ways that are compared at a size.
type arm struct {
	sample string
	run    func()
	once   bool // it is timed once a round, however short it is
}

// stage prepares a size: it adds what is measured once, and returns the arms. What it opens ends with the process.
type stage func(ctx context.Context, size int, s Samples) []arm

// measurements are measured stage by stage, so that the arms of one do not bear the memory of another.
var measurements = map[string][]stage{
	"functions": {readyFunctions, useFunctions}, "steps": {chainOfSteps}, "elements": {elements}, "bytes": {resultOfBytes},
}

// measure has the arms of each stage take turns in rounds.
func (s Samples) measure(ctx context.Context, stages []stage, size, rounds int) {
	for _, prepare := range stages {
		arms := prepare(ctx, size, s)
		for range rounds {
			for _, a := range arms {
				runtime.GC()
				s.timed(a)
			}
		}
	}
}

// minTime is long compared with the resolution of a clock, and short compared with a round.
const minTime = 5 * time.Millisecond

// timed adds the time that an arm takes, in milliseconds. It repeats a short one until minTime has passed, and adds the mean.
func (s Samples) timed(a arm) {
	began := time.Now()
	for n := 1; ; n++ {
		a.run()
		if took := time.Since(began); took >= minTime || a.once {
			s.add(a.sample, took.Seconds()*1000/float64(n))
			return
		}
	}
}

func (s Samples) add(name string, value float64) { s[name] = append(s[name], value) }

// tokens adds the number of tokens of a text.
func (s Samples) tokens(name string, text []byte) {
	s.add(name, float64(harness.Must(budget.NewCounter("", 0)).Count(text, -1)))
}

const megabyte = 1 << 20

// peak adds the peak memory of this process so far, in MB, if the system reports it.
func (s Samples) peak(name string) {
	if u, err := proc.Self(); err == nil {
		s.add(name, float64(u.Peak)/megabyte)
	}
}

// kept adds the memory that the result of f keeps, in MB.
func (s Samples) kept(name string, f func() any) {
	before := liveHeap()
	made := f()
	s.add(name, (liveHeap()-before)/megabyte)
	runtime.KeepAlive(made)
}

// liveHeap returns the number of reachable bytes.
func liveHeap() float64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}
