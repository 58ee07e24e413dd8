package temporal

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"pgregory.net/rapid"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/durable"
)

// fate is what becomes of a chain.
type fate struct {
	fails  bool
	waits  int  // assignments that end waiting for approval
	pauses int  // assignments after the waits that end with a pause
	deaths int  // workers that die running it
	other  bool // the workers do not die, but have another journal
}

const (
	poison    = 1 << 20 // deaths for a chain that kills each worker
	maxChains = 6       // the most chains in a chunk
)

// fakeWorkers are workers that give chains their fates. They store results like the result store.
type fakeWorkers struct {
	mu       sync.Mutex
	fates    [][]fate // the fates, by chunk and item
	results  map[string][]string
	ends     map[durable.ChunkItem]int
	now      func() time.Time
	due      map[durable.ChunkItem]time.Time // when the pause of a chain is over
	early    []durable.ChunkItem             // chains that continued before their pause was over
	recorded []batchEnd                      // ends of the batch that were recorded
}

func (p *fakeWorkers) end(_ context.Context, in *batchEnd) error {
	p.recorded = append(p.recorded, *in)
	return nil
}

func (p *fakeWorkers) run(ctx context.Context, in *chunkInput) (*chunkSummary, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	first, fates := 0, p.fates[in.Chunk]
	if in.Item != durable.Whole {
		first, fates = in.Item, fates[in.Item:in.Item+1]
	}
	for i := range fates {
		if f := &fates[i]; f.deaths > 0 {
			f.deaths--
			if f.other {
				return nil, temporal.NewApplicationError("", string(fault.BadRequest))
			}
			return nil, errors.New("the worker died")
		}
	}
	done := &chunkSummary{Try: int(activity.GetInfo(ctx).Attempt)}
	in.Try = done.Try
	results := make([]string, len(fates))
	for i := range fates {
		f, item := &fates[i], durable.ChunkItem{Chunk: in.Chunk, Item: first + i}
		if p.now().Before(p.due[item]) {
			p.early = append(p.early, item)
		}
		switch {
		case f.waits > 0:
			f.waits--
			w := wait{ChunkItem: item, Position: 1000*item.Chunk + item.Item}
			done.Waits = append(done.Waits, w)
			results[i] = "waits"
		case f.pauses > 0:
			f.pauses--
			w := wait{ChunkItem: item, Position: 1000*item.Chunk + item.Item, Pause: time.Duration(f.pauses*item.Item+1) * time.Minute}
			p.due[item] = p.now().Add(w.Pause)
			done.Waits = append(done.Waits, w)
			results[i] = "waits"
		case f.fails:
			done.Failed++
			results[i] = "failed"
		default:
			done.OK++
			results[i] = "ok"
		}
		if results[i] != "waits" {
			p.ends[item]++
		}
	}
	p.results[in.ResultKey(in.Assignment)] = results
	return done, nil
}

// lenientOptions keeps the SDK from taking a busy machine for a deadlock.
var lenientOptions = worker.Options{DeadlockDetectionTimeout: time.Minute}

// runBatch runs a batch in as many histories as it needs.
func (p *fakeWorkers) runBatch(t *rapid.T, in input, b bounds, prepare func(*testsuite.TestWorkflowEnvironment)) (durable.Progress, error) {
	for range 1000 {
		var suite testsuite.WorkflowTestSuite
		suite.SetLogger(quiet{})
		env := suite.NewTestWorkflowEnvironment()
		env.SetTestTimeout(time.Minute)
		env.SetWorkerOptions(lenientOptions)
		env.RegisterWorkflowWithOptions(b.runBatch, workflow.RegisterOptions{Name: batchWorkflow})
		env.RegisterActivityWithOptions(p.run, activity.RegisterOptions{Name: chunkActivity})
		env.RegisterActivityWithOptions(p.end, activity.RegisterOptions{Name: endActivity})
		p.now = env.Now
		prepare(env)
		env.ExecuteWorkflow(batchWorkflow, &in)
		if !env.IsWorkflowCompleted() {
			t.Fatal("the workflow did not complete")
		}
		var progress durable.Progress
		err := env.GetWorkflowError()
		if continued := new(workflow.ContinueAsNewError); errors.As(err, &continued) {
			in = input{}
			if err := converter.GetDefaultDataConverter().FromPayloads(continued.Input, &in); err != nil {
				t.Fatal(err)
			}
			if len(in.Waits) >= b.maxWaits+b.maxActive*maxChains {
				t.Errorf("%d chains wait, want fewer than %d", len(in.Waits), b.maxWaits+b.maxActive*maxChains)
			}
			continue
		}
		if err == nil {
			err = env.GetWorkflowResult(&progress)
		}
		return progress, err
	}
	t.Fatal("the batch did not end in 1000 histories")
	return durable.Progress{}, nil
}

// TestBatch: each chain ends once, whatever its fate, and the assignments name its final result.
func TestBatch(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := &fakeWorkers{results: map[string][]string{}, ends: map[durable.ChunkItem]int{}, due: map[durable.ChunkItem]time.Time{}}
		in := input{Batch: durable.Batch{ID: "batch-x", Parent: "run_x"}}
		chunks := rapid.IntRange(1, 20).Draw(t, "chunks")
		b := bounds{
			maxActive: rapid.IntRange(1, 30).Draw(t, "active"),
			maxWaits:  rapid.IntRange(1, 30).Draw(t, "waits"),
			maxStarts: rapid.IntRange(1, 60).Draw(t, "starts"),
		}
		want, parked, failed, total := map[durable.ChunkItem]string{}, map[durable.ChunkItem]bool{}, 0, 0
		for chunk := range chunks {
			n := rapid.IntRange(1, maxChains).Draw(t, "chains")
			fates := make([]fate, n)
			for i := range fates {
				item := durable.ChunkItem{Chunk: chunk, Item: i}
				want[item] = "ok"
				switch rapid.IntRange(0, 12).Draw(t, "fate") {
				case 0:
					fates[i].fails, want[item] = true, "failed"
				case 1, 2:
					fates[i].waits = rapid.IntRange(1, 4).Draw(t, "waits")
				case 5, 6:
					fates[i].waits, fates[i].pauses = rapid.IntRange(0, 1).Draw(t, "waits"), rapid.IntRange(1, 4).Draw(t, "pauses")
				case 3:
					fates[i].deaths = rapid.IntRange(1, 2).Draw(t, "deaths")
				case 4:
					fates[i].deaths, fates[i].other = poison, rapid.Bool().Draw(t, "other")
					parked[item] = fates[i].other
					delete(want, item)
				}
			}
			for _, result := range fates {
				if result.fails || result.deaths == poison {
					failed++
				}
			}
			total += n
			p.fates = append(p.fates, fates)
			in.Chunks = append(in.Chunks, n)
		}
		decided := rapid.SliceOfN(rapid.IntRange(0, 5), 0, 4).Draw(t, "decided")
		got, err := p.runBatch(t, in, b, func(env *testsuite.TestWorkflowEnvironment) {
			for i, position := range decided {
				env.RegisterDelayedCallback(func() { env.SignalWorkflow(decidedSignal, position) }, time.Duration(i+1)*time.Minute)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		if got.Total != total || got.Ended != total || got.Failed != failed || got.Waits != 0 {
			t.Errorf("%d of %d ended, %d failed, %d wait; want %d, %d failed", got.Ended, got.Total, got.Failed, got.Waits, total, failed)
		}
		if end := (batchEnd{Parent: "run_x", OK: failed == 0}); !slices.Equal(p.recorded, []batchEnd{end}) {
			t.Errorf("ends recorded in the journal: %v, want %v", p.recorded, end)
		}
		if len(p.early) > 0 && len(decided) == 0 {
			t.Errorf("chains continued before the end of their pause: %v", p.early)
		}
		seenParked := map[durable.ChunkItem]bool{}
		for _, item := range got.Parked {
			seenParked[item.ChunkItem] = item.Refused
		}
		if !maps.Equal(seenParked, parked) || len(got.Parked) != len(parked) {
			t.Errorf("parked %v, want %v", got.Parked, parked)
		}
		for item, n := range p.ends {
			if n != 1 {
				t.Errorf("%v ended %d times, want 1", item, n)
			}
		}
		if results := p.latest(&in.Batch, got.Assignments); !maps.Equal(results, want) {
			t.Errorf("results %v, want %v", results, want)
		}
	})
}

// latest returns the final results, in the way that durable.Progress describes.
func (p *fakeWorkers) latest(b *durable.Batch, assignments []durable.Assignment) map[durable.ChunkItem]string {
	results := map[durable.ChunkItem]string{}
	read := func(assignment durable.Assignment) {
		for i, result := range p.results[b.ResultKey(assignment)] {
			results[durable.ChunkItem{Chunk: assignment.Chunk, Item: max(assignment.Item, 0) + i}] = result
		}
	}
	for chunk := range b.Chunks {
		read(durable.FirstAssignment(chunk))
	}
	for _, assignment := range assignments {
		read(assignment)
	}
	return results
}

// TestDecisionAssignsAtOnce: a decision assigns a chain again at once. Without one the chain is assigned again after ten minutes.
func TestDecisionAssignsAtOnce(t *testing.T) {
	t.Parallel()
	for after, want := range map[time.Duration]time.Duration{time.Minute: time.Minute, time.Hour: decisionRetry} {
		t.Run(fmt.Sprint(after), func(t *testing.T) {
			t.Parallel()
			var suite testsuite.WorkflowTestSuite
			suite.SetLogger(quiet{})
			env := suite.NewTestWorkflowEnvironment()
			env.RegisterWorkflowWithOptions(usualBounds.runBatch, workflow.RegisterOptions{Name: batchWorkflow})
			var assignments []time.Time
			env.RegisterActivityWithOptions(func(context.Context, *chunkInput) (*chunkSummary, error) {
				if assignments = append(assignments, env.Now()); len(assignments) > 1 {
					return &chunkSummary{OK: 1, Try: 1}, nil
				}
				return &chunkSummary{Waits: []wait{{Position: 7}}, Try: 1}, nil
			}, activity.RegisterOptions{Name: chunkActivity})
			env.RegisterDelayedCallback(func() { env.SignalWorkflow(decidedSignal, 7) }, after)
			env.ExecuteWorkflow(batchWorkflow, &input{Batch: durable.Batch{ID: "batch-x", Chunks: []int{1}}})
			if err := env.GetWorkflowError(); err != nil || len(assignments) != 2 {
				t.Fatalf("%v; %d assignments, want 2", err, len(assignments))
			}
			if waited := assignments[1].Sub(assignments[0]).Round(time.Second); waited != want {
				t.Errorf("assigned again after %v, want %v", waited, want)
			}
		})
	}
}

// TestPausesEnd: chains that pause are assigned again when their pauses are over, a few at once, and do not count as waiting for approval.
func TestPausesEnd(t *testing.T) {
	t.Parallel()
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(quiet{})
	env := suite.NewTestWorkflowEnvironment()
	env.SetWorkerOptions(lenientOptions)
	b := bounds{maxActive: 2, maxWaits: 10, maxStarts: 100}
	env.RegisterWorkflowWithOptions(b.runBatch, workflow.RegisterOptions{Name: batchWorkflow})
	var mu sync.Mutex
	assignments, running, maximum := map[int][]time.Time{}, 0, 0
	env.RegisterActivityWithOptions(func(_ context.Context, in *chunkInput) (*chunkSummary, error) {
		mu.Lock()
		running++
		maximum = max(maximum, running)
		assignments[in.Chunk] = append(assignments[in.Chunk], env.Now())
		n := len(assignments[in.Chunk])
		mu.Unlock()
		time.Sleep(5 * time.Millisecond)
		mu.Lock()
		defer mu.Unlock()
		running--
		if n < 3 {
			return &chunkSummary{Waits: []wait{{ChunkItem: in.ChunkItem, Position: in.Chunk, Pause: time.Hour}}, Try: 1}, nil
		}
		return &chunkSummary{OK: 1, Try: 1}, nil
	}, activity.RegisterOptions{Name: chunkActivity})
	env.RegisterDelayedCallback(func() {
		var p durable.Progress
		if value, err := env.QueryWorkflow(progressQuery); err != nil || value.Get(&p) != nil || p.Waits != 0 || p.Ended != 0 {
			t.Errorf("progress during the pauses: got %+v, %v, want 0 waits and 0 ended", p, err)
		}
	}, 30*time.Minute)
	env.ExecuteWorkflow(batchWorkflow, &input{Batch: durable.Batch{ID: "batch-x", Chunks: []int{1, 1, 1, 1, 1, 1}}})
	var p durable.Progress
	if err := env.GetWorkflowResult(&p); err != nil || p.Ended != 6 || p.Failed != 0 || p.Waits != 0 || maximum > b.maxActive {
		t.Fatalf("%d chunks at once, want at most %d; %v: %+v", maximum, b.maxActive, err, p)
	}
	for chunk, times := range assignments {
		if len(times) != 3 || times[2].Sub(times[0]).Round(time.Minute) != 2*time.Hour {
			t.Errorf("chunk %d was assigned at %v, want 3 times within two hours", chunk, times)
		}
	}
}

// TestCancelledBatch: running chunks end with answers, chains that wait still wait, and nothing else starts.
func TestCancelledBatch(t *testing.T) {
	t.Parallel()
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(quiet{})
	env := suite.NewTestWorkflowEnvironment()
	env.RegisterWorkflowWithOptions(usualBounds.runBatch, workflow.RegisterOptions{Name: batchWorkflow})
	var mu sync.Mutex
	started := 0
	env.RegisterActivityWithOptions(func(ctx context.Context, in *chunkInput) (*chunkSummary, error) {
		mu.Lock()
		started++
		mu.Unlock()
		if in.Chunk == 0 {
			return &chunkSummary{OK: 1, Waits: []wait{{ChunkItem: durable.ChunkItem{Item: 1}, Position: 1}}, Try: 1}, nil
		}
		activity.RecordHeartbeat(ctx)
		<-ctx.Done()
		return &chunkSummary{Failed: 2, Try: 1}, nil
	}, activity.RegisterOptions{Name: chunkActivity})
	env.RegisterDelayedCallback(env.CancelWorkflow, time.Second)
	chunks := make([]int, 2*usualBounds.maxActive)
	for i := range chunks {
		chunks[i] = 2
	}
	env.ExecuteWorkflow(batchWorkflow, &input{Batch: durable.Batch{ID: "batch-x", Chunks: chunks}})
	cancelled := new(temporal.CanceledError)
	if err := env.GetWorkflowError(); !errors.As(err, &cancelled) {
		t.Fatalf("got error %v, want the workflow cancelled", err)
	}
	var got durable.Progress
	if err := cancelled.Details(&got); err != nil {
		t.Fatal(err)
	}
	// Unlike a server, the test's environment does not wait for running chunks.
	if started != usualBounds.maxActive+1 || got.Total != 4*usualBounds.maxActive || got.Ended != 2 || got.Failed != 1 || got.Waits != 0 {
		t.Errorf("%d chunks started, want %d: %+v", started, usualBounds.maxActive+1, got)
	}
}

// quiet logs nothing.
type quiet struct{}

func (quiet) Debug(string, ...any) {}
func (quiet) Info(string, ...any)  {}
func (quiet) Warn(string, ...any)  {}
func (quiet) Error(string, ...any) {}

// TestPausesWithinChunk: a chain that pauses stays with its worker, without a slot, while other chains of its chunk run. After that, pauses
// are left to the engine.
func TestPausesWithinChunk(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began, runs := time.Now(), []int{0, 0}
		c := &chunks{slots: make(chan struct{}, 2), Worker: &durable.Worker{Run: func(_ context.Context, _ *durable.Batch, ch *durable.Chain,
			_ time.Time) (*durable.Result, error) {
			if runs[ch.Position]++; ch.Position == 1 { // the chain runs long
				time.Sleep(time.Hour)
				return &durable.Result{OK: true}, nil
			}
			return &durable.Result{Resumes: time.Now().Add(7 * time.Minute)}, nil
		}}}
		results := c.runAll(t.Context(), &chunkInput{}, []durable.Chain{{Position: 0}, {Position: 1}}, time.Time{})
		if took := time.Since(began); took != time.Hour || runs[0] != 9 || results[0].Resumes.IsZero() || !results[1].OK {
			t.Errorf("runs %v after %v, want 9 and 1 after an hour: %+v", runs, took, results)
		}
	})
}
