package temporal

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/durable"
)

const (
	batchWorkflow = "onecall.batch"
	chunkActivity = "onecall.chunk"

	stopTime   = 10 * time.Second // that chains under way have to end when a worker ends
	recordTime = 5 * time.Second  // after that, for what they did to be recorded
	leastPause = 100 * time.Millisecond
	maxPause   = 5 * time.Second
	beatEvery  = time.Second

	unusableReason = "unusable" // of an error that no repetition mends
)

// chunkInput is a chunk to run, or one chain of it.
type chunkInput struct {
	durable.Batch
	durable.Turn
	First time.Time // when it was tried first; zero: now
}

// chunkDone is how its chains ended.
type chunkDone struct {
	OK, Failed int
	Try        int // which of the turn's this was
	Waits      []wait
}

// Work implements durable.Engine.
func (e *Engine) Work(ctx context.Context, w *durable.Worker) error {
	stopped := make(chan error, 1)
	workers := worker.New(e.client, e.queue, worker.Options{
		MaxConcurrentActivityExecutionSize: w.Jobs,
		WorkerStopTimeout:                  stopTime + recordTime,
		MaxHeartbeatThrottleInterval:       beatEvery, // a heartbeat's answer tells of a cancellation
		OnFatalError:                       func(err error) { stopped <- err },
	})
	register(workers, &chunks{Worker: w, slots: make(chan struct{}, w.Jobs)})
	if err := workers.Start(); err != nil {
		return e.fault(err)
	}
	defer workers.Stop()
	w.Ready()
	select {
	case <-ctx.Done():
		return nil
	case err := <-stopped:
		return e.fault(err)
	}
}

func register(r worker.Registry, c *chunks) {
	registerWorkflow(r)
	r.RegisterActivityWithOptions(c.run, activity.RegisterOptions{Name: chunkActivity})
}

func registerWorkflow(r interface {
	RegisterWorkflowWithOptions(w any, o workflow.RegisterOptions)
}) {
	r.RegisterWorkflowWithOptions(runBatch, workflow.RegisterOptions{Name: batchWorkflow})
}

// chunks runs chunks of chains.
type chunks struct {
	*durable.Worker
	slots chan struct{} // taken by chains under way, of all chunks
}

// run is the activity: it runs the chains, stores their results, and returns how they ended. It fails if the worker ends before them;
// another then goes on with their runs.
func (c *chunks) run(ctx context.Context, in *chunkInput) (*chunkDone, error) {
	info := activity.GetInfo(ctx)
	first := in.First
	if first.IsZero() && info.Attempt > 1 {
		first = info.ScheduledTime
	}
	if err := c.Check(ctx, &in.Batch); err != nil {
		return nil, err
	}
	chains, err := c.chains(ctx, in)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	over := make(chan struct{})
	defer close(over)
	go beat(ctx, over)
	go func() {
		select {
		case <-over:
		case <-activity.GetWorkerStopChannel(ctx):
			select {
			case <-over:
			case <-time.After(stopTime):
				cancel()
			}
		}
	}()
	results := make([]*durable.Result, len(chains))
	var all sync.WaitGroup
	for i := range chains {
		c.slots <- struct{}{}
		all.Go(func() {
			defer func() { <-c.slots }()
			results[i], _ = again(ctx, func() (*durable.Result, error) { return c.Run(ctx, &in.Batch, &chains[i], first) })
		})
	}
	all.Wait()
	if isStopping(ctx) {
		for _, r := range results {
			if r == nil || r.Error != nil && r.Error.Code == fault.Cancelled {
				return nil, errors.New("the worker ends: another one goes on with these chains")
			}
		}
	}
	if cause := new(temporal.CanceledError); ctx.Err() != nil && !errors.As(context.Cause(ctx), &cause) {
		return nil, context.Cause(ctx) // another worker has the chunk
	}
	in.Try = int(info.Attempt)
	return c.store(ctx, in, results)
}

func isStopping(ctx context.Context) bool {
	select {
	case <-activity.GetWorkerStopChannel(ctx):
		return true
	default:
		return false
	}
}

// beat shows the server that this worker is alive, until over is closed. The server's answer cancels the activity's context if the batch
// was cancelled or another worker has the chunk.
func beat(ctx context.Context, over <-chan struct{}) {
	tick := time.NewTicker(beatEvery)
	defer tick.Stop()
	for {
		select {
		case <-over:
			return
		case <-tick.C:
			activity.RecordHeartbeat(ctx)
		}
	}
}

// chains returns the chains to run.
func (c *chunks) chains(ctx context.Context, in *chunkInput) (list []durable.Chain, err error) {
	text, err := again(ctx, func() ([]byte, error) { return c.Store.Get(ctx, in.InputKey(in.Chunk)) })
	if err == nil {
		err = json.Unmarshal(text, &list)
	}
	if err == nil && in.Item != durable.Whole {
		list = list[in.Item : in.Item+1]
	}
	return list, final(err)
}

// final marks an error that no repetition mends.
func final(err error) error {
	if isFinal(err) {
		return temporal.NewNonRetryableApplicationError(fault.Message(err), unusableReason, nil)
	}
	return err
}

func isFinal(err error) bool {
	code := fault.CodeOf(err)
	return code == fault.TokenExpired || code == fault.LimitExceeded
}

// store stores results and counts them. A chain without one was cancelled before it could start.
func (c *chunks) store(ctx context.Context, in *chunkInput, results []*durable.Result) (*chunkDone, error) {
	done := &chunkDone{Try: in.Try}
	for i, r := range results {
		item := max(in.Item, i) // one of them is 0
		switch {
		case r == nil:
			done.Failed++
		case r.Approval:
			done.Waits = append(done.Waits, wait{Place: durable.Place{Chunk: in.Chunk, Item: item}, Position: r.Position})
		case r.OK:
			done.OK++
		default:
			done.Failed++
		}
	}
	text, err := json.Marshal(results)
	if err != nil {
		return nil, err
	}
	lasting := context.WithoutCancel(ctx) // a cancelled batch has results, too
	_, err = again(lasting, func() (struct{}, error) {
		return struct{}{}, c.Store.Put(lasting, in.ResultKey(in.Turn), text)
	})
	return done, final(err)
}

// again calls f until it succeeds, fails for good, or ctx ends. The pauses grow.
func again[T any](ctx context.Context, f func() (T, error)) (T, error) {
	for pause := leastPause; ; pause = min(2*pause, maxPause) {
		value, err := f()
		if err == nil || isFinal(err) || ctx.Err() != nil {
			return value, err
		}
		select {
		case <-ctx.Done():
			return value, err
		case <-time.After(pause):
		}
	}
}
