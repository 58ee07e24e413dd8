package temporal

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"go.temporal.io/api/serviceerror"
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
	endActivity   = "onecall.end"

	stopTime          = 10 * time.Second       // how long running chains may take to end when their worker stops
	recordTime        = 5 * time.Second        // how long recording what they did may take after that
	minPause          = 100 * time.Millisecond // the first pause between two tries (see retry)
	maxPause          = 5 * time.Second        // the longest
	heartbeatInterval = time.Second
)

// chunkInput is a chunk to run, or a single chain of it.
type chunkInput struct {
	durable.Batch
	durable.Assignment
	First time.Time // when the chunk was first tried; zero: now
}

// chunkSummary reports how the chains of a chunkInput ended.
type chunkSummary struct {
	OK, Failed int
	Try        int // the number of this try of the assignment, from 1
	Waits      []wait
}

// batchEnd is how a batch ended.
type batchEnd struct {
	Parent string
	OK     bool
	Code   fault.Code // cancelled if the batch was cancelled, else ""
}

// Work implements durable.Engine.
func (e *Engine) Work(ctx context.Context, w *durable.Worker) error {
	stopped := make(chan error, 1)
	sdkWorker := worker.New(e.client, e.queue, worker.Options{
		MaxConcurrentActivityExecutionSize: w.Jobs,
		WorkerStopTimeout:                  stopTime + recordTime,
		MaxHeartbeatThrottleInterval:       heartbeatInterval, // the answer to a heartbeat reports a cancellation
		OnFatalError:                       func(err error) { stopped <- err },
	})
	register(sdkWorker, &chunks{Worker: w, slots: make(chan struct{}, w.Jobs)})
	if err := sdkWorker.Start(); err != nil {
		return e.fault(err)
	}
	defer sdkWorker.Stop()
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
	r.RegisterActivityWithOptions(c.end, activity.RegisterOptions{Name: endActivity})
}

func registerWorkflow(r interface {
	RegisterWorkflowWithOptions(w any, o workflow.RegisterOptions)
}) {
	r.RegisterWorkflowWithOptions(usualBounds.runBatch, workflow.RegisterOptions{Name: batchWorkflow})
}

// chunks runs chunks of chains.
type chunks struct {
	*durable.Worker
	slots chan struct{} // taken by the running chains of all chunks
}

// run is the activity that runs the chains of a chunk, stores their results, and returns how they ended. It fails if the worker stops
// before they end; another worker then continues their runs. Its error goes to a history, so it has only the code: the log has the rest.
func (c *chunks) run(ctx context.Context, in *chunkInput) (*chunkSummary, error) {
	done, err := c.carryOut(ctx, in)
	if err == nil {
		return done, nil
	}
	activity.GetLogger(ctx).Warn("the chunk goes to another worker, or is parked", "error", err)
	code := string(fault.CodeOf(err))
	return nil, temporal.NewApplicationErrorWithOptions(code, code, temporal.ApplicationErrorOptions{NonRetryable: isFinal(err)})
}

// end is the activity that records the end of a batch.
func (c *chunks) end(ctx context.Context, in *batchEnd) error {
	err := c.End(ctx, in.Parent, in.OK, in.Code)
	if err != nil {
		activity.GetLogger(ctx).Warn("the end of a batch is not recorded yet", "error", err)
		code := string(fault.CodeOf(err))
		return temporal.NewApplicationError(code, code)
	}
	return nil
}

// carryOut does what run says. Its errors have their whole text, which run logs before it reduces them to their codes.
func (c *chunks) carryOut(ctx context.Context, in *chunkInput) (*chunkSummary, error) {
	info := activity.GetInfo(ctx)
	first := in.First
	if first.IsZero() && info.Attempt > 1 { // not the first try: the server scheduled the chunk before that
		first = info.ScheduledTime
	}
	ctx, end := withHeartbeat(ctx)
	defer end()
	if err := c.check(ctx, in); err != nil {
		return nil, err
	}
	chains, err := c.chains(ctx, in)
	if err != nil {
		return nil, err
	}
	results := c.runAll(ctx, in, chains, first)
	if isStopping(ctx) {
		for _, r := range results {
			if r == nil || r.Resumes.IsZero() && r.Error != nil && r.Error.Code == fault.Cancelled {
				return nil, errors.New("the worker is stopping; another worker will continue these chains")
			}
		}
	}
	if cause := new(temporal.CanceledError); ctx.Err() != nil && !errors.As(context.Cause(ctx), &cause) {
		return nil, context.Cause(ctx) // another worker has the chunk
	}
	in.Try = int(info.Attempt)
	return c.store(ctx, in, results)
}

// runAll runs chains concurrently. A chain that pauses waits here while other chains run; after that, pauses are left to the engine.
func (c *chunks) runAll(ctx context.Context, in *chunkInput, chains []durable.Chain, first time.Time) []*durable.Result {
	results := make([]*durable.Result, len(chains))
	group := &workGroup{running: len(chains), idle: make(chan struct{})}
	var all sync.WaitGroup
	for i := range chains {
		c.slots <- struct{}{}
		all.Go(func() {
			for {
				results[i], _ = retry(ctx, func() (*durable.Result, error) { return c.Run(ctx, &in.Batch, &chains[i], first) })
				<-c.slots
				if r := results[i]; !group.pause(ctx, r) {
					return
				}
				c.slots <- struct{}{}
			}
		})
	}
	all.Wait()
	return results
}

// workGroup counts the running chains of a chunk.
type workGroup struct {
	mu      sync.Mutex
	running int
	idle    chan struct{} // closed when no chain of the chunk is running
}

// pause waits until the pause of a chain is over; r is the chain's result so far. It returns false if the chain has ended, or if the other
// chains have stopped running meanwhile.
func (g *workGroup) pause(ctx context.Context, r *durable.Result) bool {
	g.mu.Lock()
	if g.running--; g.running == 0 {
		close(g.idle)
	}
	g.mu.Unlock()
	if r == nil || r.Resumes.IsZero() {
		return false
	}
	select {
	case <-g.idle:
		return false
	case <-ctx.Done():
		return false
	case <-time.After(time.Until(r.Resumes)):
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.running == 0 {
		return false
	}
	g.running++
	return true
}

func isStopping(ctx context.Context) bool {
	select {
	case <-activity.GetWorkerStopChannel(ctx):
		return true
	default:
		return false
	}
}

// withHeartbeat returns the context in which chains run, and reports to the server that the worker is alive until end is called. The
// context ends if the batch was cancelled, if another worker has the chunk, or stopTime after this worker began to stop. The activity's own
// context is not used, because the SDK ends it if the server does not answer for a second. That would break off a write for no reason,
// since the journal keeps other workers out anyway.
func withHeartbeat(ctx context.Context) (work context.Context, end func()) {
	work, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		tick := time.NewTicker(heartbeatInterval)
		defer tick.Stop()
		ended, stopping, stopped := ctx.Done(), activity.GetWorkerStopChannel(ctx), (<-chan time.Time)(nil)
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				activity.RecordHeartbeat(work)
			case <-ended: // once: a nil channel is never ready
				if ended = nil; endedByServer(context.Cause(ctx)) {
					cancel(context.Cause(ctx))
				}
			case <-stopping:
				stopping, stopped = nil, time.After(stopTime)
			case <-stopped:
				cancel(context.Canceled)
			}
		}
	}()
	return work, func() {
		close(done)
		cancel(nil)
	}
}

// endedByServer reports whether the server ended an activity, rather than the SDK because the server does not answer.
func endedByServer(cause error) bool {
	var (
		cancelled *temporal.CanceledError
		missing   *serviceerror.NotFound
	)
	return errors.As(cause, &cancelled) || errors.As(cause, &missing)
}

// check fails with bad_request if this worker must not run the chunk. It waits while the journal cannot be reached.
func (c *chunks) check(ctx context.Context, in *chunkInput) error {
	_, err := retry(ctx, func() (struct{}, error) {
		err := c.Check(ctx, &in.Batch)
		if err == nil && in.Number > 0 { // not the first assignment of these chains: their chunk was stored a while ago
			err = c.Renew(ctx, &in.Batch, in.Chunk)
		}
		return struct{}{}, err
	})
	if fault.CodeOf(err) == fault.BadRequest { // gives a worker that can run it time to take it
		select {
		case <-ctx.Done():
		case <-time.After(maxPause):
		}
	}
	return err
}

// chains returns the chains to run.
func (c *chunks) chains(ctx context.Context, in *chunkInput) (list []durable.Chain, err error) {
	text, err := retry(ctx, func() ([]byte, error) { return c.Store.Get(ctx, in.InputKey(in.Chunk)) })
	if err == nil {
		err = json.Unmarshal(text, &list)
	}
	if err == nil && in.Item != durable.Whole {
		list = list[in.Item : in.Item+1]
	}
	return list, err
}

// isFinal reports whether an error stays the same however often, and on whichever worker, the chunk is tried again.
func isFinal(err error) bool {
	code := fault.CodeOf(err)
	return code == fault.TokenExpired || code == fault.LimitExceeded
}

// store stores results and counts them. A chain without a result was cancelled before it could start.
func (c *chunks) store(ctx context.Context, in *chunkInput, results []*durable.Result) (*chunkSummary, error) {
	done := &chunkSummary{Try: in.Try}
	for i, r := range results {
		item := max(in.Item, i) // Item is Whole (-1), or i is 0
		switch {
		case r == nil:
			done.Failed++
		case !r.Resumes.IsZero():
			done.Waits = append(done.Waits, wait{ChunkItem: durable.ChunkItem{Chunk: in.Chunk, Item: item}, Position: r.Position,
				Pause: max(time.Until(r.Resumes), time.Millisecond)})
		case r.Approval:
			done.Waits = append(done.Waits, wait{ChunkItem: durable.ChunkItem{Chunk: in.Chunk, Item: item}, Position: r.Position})
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
	ctx = context.WithoutCancel(ctx) // the results of a cancelled batch are stored, too
	_, err = retry(ctx, func() (struct{}, error) {
		return struct{}{}, c.Store.Put(ctx, in.ResultKey(in.Assignment), text)
	})
	return done, err
}

// retry calls f until it succeeds, fails for good, or ctx ends. The pauses between calls grow.
func retry[T any](ctx context.Context, f func() (T, error)) (T, error) {
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		value, err := f()
		if err == nil || isFinal(err) || fault.CodeOf(err) == fault.BadRequest || ctx.Err() != nil {
			return value, err
		}
		select {
		case <-ctx.Done():
			return value, err
		case <-time.After(pause):
		}
	}
}
