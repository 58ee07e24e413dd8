package temporal

import (
	"errors"
	"slices"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/durable"
)

const (
	progressQuery = "progress"
	decidedSignal = "decided"

	chunkTries       = 3                    // workers that may die running a chunk before its chains run one by one
	itemTries        = 10                   // workers that may die running a single chain before it is parked
	decisionRetry    = 10 * time.Minute     // after this time a chain that waits for approval is tried again: a decision may be lost
	endTimeout       = 20 * time.Second     // the limit for recording in the journal that a batch has ended
	heartbeatTimeout = 5 * time.Second      // after this time without a sign of life another worker takes over
	maxChunkTime     = 365 * 24 * time.Hour // Temporal requires a limit; chains have limits of their own
)

// bounds keep the history of a batch within Temporal's limits.
type bounds struct {
	maxActive int // chunks that run at once
	maxWaits  int // chains that wait or pause; at this number no further chunk begins
	maxStarts int // assignments started in one history, chunks included; then the batch continues in another
}

var usualBounds = bounds{maxActive: 200, maxWaits: 2000, maxStarts: 400}

// input is a batch, and its progress in earlier histories.
type input struct {
	durable.Batch
	Next     int // the next chunk
	Progress durable.Progress
	Waits    []wait
}

// wait is a chain that pauses, or waits for approval.
type wait struct {
	durable.ChunkItem
	Position int
	Decided  bool      // the approval was decided in an earlier history
	First    time.Time // when the chain was first tried
	Next     int       `json:"Turn"` // the number of its next assignment; histories call it Turn

	Pause time.Duration `json:",omitzero"` // a duration, as the clocks of workers may differ; 0: it waits for approval
	Until time.Time     `json:",omitzero"` // when the pause is over
}

// state is a running batch. It needs no lock: the coroutines of a workflow run one at a time.
type state struct {
	input
	bounds
	decided map[int]bool // by position: the approval was decided after the chain had begun to wait
	starts  int          // assignments started in this history, chunks included
	active  int          // running chunks, and chains that were assigned again
}

// runBatch runs the chunks of a batch, up to maxActive at once. Chains that wait for approval or pause are assigned again later.
func (b bounds) runBatch(ctx workflow.Context, in *input) (durable.Progress, error) {
	s := &state{input: *in, bounds: b, decided: map[int]bool{}}
	if s.Progress.Total == 0 {
		for _, n := range s.Chunks {
			s.Progress.Total += n
		}
	}
	s.Progress.Waits = 0 // assignLater counts them again
	if err := workflow.SetQueryHandler(ctx, progressQuery, s.counts); err != nil {
		return s.Progress, err
	}
	decisions := workflow.GetSignalChannel(ctx, decidedSignal)
	workflow.Go(ctx, func(ctx workflow.Context) {
		for {
			var position int
			if decisions.Receive(ctx, &position) {
				s.decided[position] = true
			}
		}
	})
	waits := s.Waits
	s.Waits = nil
	for _, w := range waits {
		s.assignLater(ctx, w)
	}
	for s.Next < len(s.Chunks) && ctx.Err() == nil {
		// When the batch is cancelled, running chunks end by themselves, with answers that say so.
		err := workflow.Await(ctx, func() bool { return s.starts >= s.maxStarts || s.active < s.maxActive && len(s.Waits) < s.maxWaits })
		if err != nil || s.starts >= s.maxStarts {
			break
		}
		chunk := s.Next
		s.Next, s.active = s.Next+1, s.active+1
		workflow.Go(ctx, func(ctx workflow.Context) {
			s.runChunk(ctx, chunk)
			s.active--
		})
	}
	disconnected, _ := workflow.NewDisconnectedContext(ctx)
	// This history is over once nothing runs, and either no chain waits or another history takes over the rest.
	handsOver := func() bool { return s.Next < len(s.Chunks) || len(s.Waits) > 0 && s.starts >= s.maxStarts }
	if err := workflow.Await(disconnected, func() bool { return s.active == 0 && (len(s.Waits) == 0 || handsOver()) }); err != nil {
		return s.Progress, err
	}
	switch {
	case ctx.Err() != nil:
		s.recordEnd(disconnected, fault.Cancelled)
		return s.Progress, temporal.NewCanceledError(s.Progress)
	case s.Next < len(s.Chunks) || len(s.Waits) > 0:
		for position := 0; decisions.ReceiveAsync(&position); { // decisions not received yet would be lost with this history
			s.decided[position] = true
		}
		for i := range s.Waits {
			s.Waits[i].Decided = s.decided[s.Waits[i].Position]
		}
		return s.Progress, workflow.NewContinueAsNewError(ctx, batchWorkflow, &s.input)
	}
	s.recordEnd(disconnected, "")
	return s.Progress, nil
}

// recordEnd records in the journal that the batch has ended, in case its client has left. A client that is still there records it again.
func (s *state) recordEnd(ctx workflow.Context, code fault.Code) {
	if s.Parent == "" {
		return
	}
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: endTimeout, ScheduleToCloseTimeout: endTimeout,
		RetryPolicy: &temporal.RetryPolicy{InitialInterval: 100 * time.Millisecond},
	})
	end := &batchEnd{Parent: s.Parent, OK: s.Progress.Failed == 0 && code == "", Code: code}
	_ = workflow.ExecuteActivity(ctx, endActivity, end).Get(ctx, nil)
}

// counts returns the progress of the batch, without the lists that are needed only at its end.
func (s *state) counts() (durable.Progress, error) {
	p := s.Progress
	p.Assignments, p.Parked = nil, nil
	return p, nil
}

// runChunk runs the chains of a chunk on one worker. If that fails for good, each chain runs by itself.
func (s *state) runChunk(ctx workflow.Context, chunk int) {
	first := workflow.Now(ctx)
	if n := s.Chunks[chunk]; n > 1 {
		err := s.run(ctx, durable.Assignment{ChunkItem: durable.ChunkItem{Chunk: chunk, Item: durable.Whole}}, time.Time{}, chunkTries)
		if err == nil || ctx.Err() != nil {
			return
		}
		for i := range n {
			s.runAlone(ctx, durable.Assignment{ChunkItem: durable.ChunkItem{Chunk: chunk, Item: i}, Number: 1}, first)
		}
		return
	}
	s.runAlone(ctx, durable.Assignment{ChunkItem: durable.ChunkItem{Chunk: chunk, Item: durable.Whole}}, time.Time{})
}

// runAlone runs one chain. If that fails for good, the chain is parked: its run can be resumed.
func (s *state) runAlone(ctx workflow.Context, a durable.Assignment, first time.Time) {
	if err := s.run(ctx, a, first, itemTries); err != nil && ctx.Err() == nil {
		appErr := new(temporal.ApplicationError)
		refused := errors.As(err, &appErr) && appErr.Type() == string(fault.BadRequest)
		item := a.ChunkItem
		if item.Item == durable.Whole { // the chunk is this one chain
			item.Item = 0
		}
		s.Progress.Parked = append(s.Progress.Parked, durable.ParkedChain{ChunkItem: item, Refused: refused})
		s.Progress.Ended++
		s.Progress.Failed++
	}
}

// run gives an assignment to a worker and waits until it is carried out. first is when its chains were first tried; zero: now.
func (s *state) run(ctx workflow.Context, a durable.Assignment, first time.Time, tries int32) error {
	s.starts++
	began := first
	if began.IsZero() {
		began = workflow.Now(ctx)
	}
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: maxChunkTime,
		HeartbeatTimeout:    heartbeatTimeout,
		WaitForCancellation: true,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: 100 * time.Millisecond, MaximumInterval: 10 * time.Second, MaximumAttempts: tries,
		},
	})
	var done chunkSummary
	batch := durable.Batch{ID: s.ID, Parent: s.Parent, Round: s.Round} // without Chunks, which would fill the history
	in := &chunkInput{Batch: batch, Assignment: a, First: first}
	if err := workflow.ExecuteActivity(ctx, chunkActivity, in).Get(ctx, &done); err != nil {
		return err
	}
	a.Try = done.Try
	// Readers of the results assume the first assignment of each chunk. Any other is listed, in place of an earlier one of the same chain.
	if a != durable.FirstAssignment(a.Chunk) {
		s.Progress.Assignments = slices.DeleteFunc(s.Progress.Assignments, func(t durable.Assignment) bool { return t.ChunkItem == a.ChunkItem })
		s.Progress.Assignments = append(s.Progress.Assignments, a)
	}
	s.Progress.Ended += done.OK + done.Failed
	s.Progress.Failed += done.Failed
	for _, w := range done.Waits {
		w.First, w.Next = began, a.Number+1
		if w.Pause > 0 {
			w.Until = workflow.Now(ctx).Add(w.Pause)
		}
		s.assignLater(ctx, w)
	}
	return nil
}

// assignLater assigns a chain again when its pause is over or its approval is decided.
func (s *state) assignLater(ctx workflow.Context, w wait) {
	s.Waits = append(s.Waits, w)
	wake, forApproval := decisionRetry, w.Until.IsZero()
	if forApproval {
		s.Progress.Waits++
	} else {
		wake = w.Until.Sub(workflow.Now(ctx))
	}
	workflow.Go(ctx, func(ctx workflow.Context) {
		_, _ = workflow.AwaitWithTimeout(ctx, wake, func() bool { return w.Decided || s.decided[w.Position] })
		if !forApproval { // the pauses of many chains may end at the same time: stay within maxActive
			_ = workflow.Await(ctx, func() bool { return s.starts >= s.maxStarts || s.active < s.maxActive })
		}
		if ctx.Err() == nil && s.starts >= s.maxStarts { // the next history assigns it
			return
		}
		s.active++
		defer func() { s.active-- }()
		delete(s.decided, w.Position)
		s.Waits = slices.DeleteFunc(s.Waits, func(other wait) bool { return other.ChunkItem == w.ChunkItem })
		if forApproval {
			s.Progress.Waits--
		}
		if ctx.Err() != nil { // the batch was cancelled: the chain counts as failed, with its last answer, which says that it waits
			s.Progress.Ended++
			s.Progress.Failed++
			return
		}
		s.runAlone(ctx, durable.Assignment{ChunkItem: w.ChunkItem, Number: w.Next}, w.First)
	})
}
