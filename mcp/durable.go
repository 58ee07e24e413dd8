package mcp

import (
	"context"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// Durable hands runs to workers: other processes that finish them even if this one ends. It is safe for concurrent use.
type Durable interface {
	// NewKey returns a key for a run whose request has none.
	NewKey() string
	// Start hands a run to a worker, which carries it out with the rights that the caller has now. See chain.Durable.
	Start(ctx context.Context, run *chain.DurableRun, c *DurableCaller) *fault.Error
	// State reports whether workers have yet to finish a run and, if so, whether no worker asks for work (idle). It fails if the engine
	// cannot be reached.
	State(ctx context.Context, run chain.HandedRun) (running, idle bool, err error)
	// Answer waits until workers have finished a run. It fails if its answer is not known (any more).
	Answer(ctx context.Context, run chain.HandedRun) (*DurableAnswer, error)
	// Cancel asks for a run to end. It does not wait.
	Cancel(ctx context.Context, run chain.HandedRun) error
}

// DurableCaller is the caller for whom a worker carries out a run.
type DurableCaller struct {
	steps.Caller
	Results budget.Rights // the rights to stored results
}

// DurableAnswer is the answer of a run that workers have finished.
type DurableAnswer struct {
	Answer *chain.Answer
	Lease  int64         // the last lease under which the run did something; 0: not known
	Rights budget.Rights // the rights with which Answer was made; a caller with fewer rights does not get it
	Fault  *fault.Error  // why the workers did not carry out the run, which then has no Answer; else nil
}

const (
	askTime    = 2 * time.Second  // the time limit for asking the engine about a run
	cancelTime = 10 * time.Second // the time limit for telling the engine to cancel a run
)

// callDurable is chain.Durable for a call.
type callDurable struct {
	Durable
	call *call
}

// durable returns what hands the call's chain to workers; nil: there are no workers.
func (c *call) durable() chain.Durable {
	if c.now.Durable == nil {
		return nil
	}
	return &callDurable{c.now.Durable, c}
}

// Start implements chain.Durable.
func (d *callDurable) Start(ctx context.Context, run *chain.DurableRun) *fault.Error {
	if f := d.call.checkHandoverLimit(ctx); f != nil {
		return f
	}
	f := d.Durable.Start(ctx, run, &DurableCaller{Caller: *d.call.transportRequest.Caller, Results: d.call.caller.Rights})
	if f == nil {
		d.call.toolset.server.runs.drop(run.Run) // it may have been in the background here
	}
	return f
}

// checkHandoverLimit refuses to hand over another run if workers already have as many runs of the caller as may be in the background.
func (c *call) checkHandoverLimit(ctx context.Context) *fault.Error {
	limit := c.transportRequest.MaxDetached()
	if limit < 0 {
		return nil
	}
	var unfinished []journal.Row
	none := ""
	for _, status := range []journal.Status{journal.Waiting, journal.Running} {
		rows, err := c.now.Engine.Journal().List(ctx, &journal.Filter{Caller: &c.caller.ID, Parent: &none, Status: status,
			Limit: limit + 1})
		if err != nil {
			return fault.New(fault.Unavailable, "the run cannot be handed to workers now, as the journal cannot be read")
		}
		unfinished = append(unfinished, rows...)
	}
	if len(unfinished) <= limit { // this run is among them
		return nil
	}
	count := 0
	for i := range unfinished { // some ended before a worker took them, wait for approval, or run elsewhere
		if c.isAtWorkers(ctx, unfinished[i].ID) {
			count++
		}
	}
	if count < limit {
		return nil
	}
	return fault.New(fault.Busy, "%d of your runs go on at workers, which is the limit: wait until one has ended, and send this one again",
		limit)
}

// isAtWorkers reports whether workers have a run of the caller's. It is false if that is not known.
func (c *call) isAtWorkers(ctx context.Context, run string) bool {
	past, err := c.now.Engine.PastRun(ctx, run, c.caller)
	if err != nil || past.HandoverLease == 0 {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	running, _, err := c.now.Durable.State(ctx, chain.HandedRun{Run: run, Lease: past.HandoverLease})
	return err == nil && running
}

// Running implements chain.Durable.
func (d *callDurable) Running(ctx context.Context, run chain.HandedRun) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	running, _, err := d.State(ctx, run)
	return running, err
}

// Wait implements chain.Durable.
func (d *callDurable) Wait(ctx context.Context, run chain.HandedRun) (*chain.Answer, error) {
	ended, err := d.Answer(ctx, run)
	if err != nil {
		return nil, err
	}
	return d.call.now.answerOf(ctx, ended, d.call.caller), nil
}

// answerOf returns the answer of a run that workers have finished.
func (g *generation) answerOf(ctx context.Context, a *DurableAnswer, c *chain.Caller) *chain.Answer {
	if a.Fault != nil {
		return g.Engine.Refuse(ctx, []*fault.Error{a.Fault}, c)
	}
	return a.Answer
}

// handedRun is a run that was handed to workers.
type handedRun struct {
	id     chain.HandedRun
	row    *journal.Row
	note   string        // its progress, for the caller
	answer *chain.Answer // the answer, once the run has ended and it can be read; else nil

	hasEnded bool // the run has ended according to the journal, and the engine does not say otherwise
}

// handedOver returns the state of a caller's run that was handed to workers. It returns nil if the run was not handed over or has
// continued elsewhere since, or if its answer is no longer known or needs more rights than the caller has.
func (g *generation) handedOver(ctx context.Context, c *chain.Caller, past *journal.Past) *handedRun {
	row := &past.Row
	if g.Durable == nil || past.HandoverLease == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	hasEnded := row.Status == journal.OK || row.Status == journal.Failed || row.Code != ""
	r := &handedRun{id: chain.HandedRun{Run: row.ID, Lease: past.HandoverLease}, row: row, hasEnded: hasEnded}
	running, idle, err := g.Durable.State(ctx, r.id)
	if running { // the journal has the end of a run a moment before the engine has its answer
		r.hasEnded = false
	}
	switch {
	case err != nil && hasEnded:
		r.note = "it has ended, but its answer cannot be read because the workers' engine does not answer: ask again"
		return r
	case err != nil:
		r.note = "its progress is unknown because the workers' engine does not answer: ask again"
		return r
	case running && idle:
		r.note = "no worker is polling: it continues once one does"
		return r
	case running && row.Lease == past.HandoverLease:
		r.note = "it waits until a worker takes it"
		return r
	case running:
		r.note = "a worker carries it out"
		return r
	}
	ended, err := g.Durable.Answer(ctx, r.id)
	if f, _ := fault.As(err); err != nil && (f == nil || f.Code != fault.TokenExpired) {
		r.note = "workers are done with it, and its answer cannot be read now: ask again"
		return r
	}
	if err == nil && ended.Lease != 0 && ended.Lease != past.LastLease() { // it may have ended since past was read
		if now, err := g.Engine.PastRun(ctx, row.ID, c); err == nil {
			past, r.row = now, &now.Row
		}
	}
	switch {
	// The answer is not known any more, or it is not certain to be that of the run's last events: the run may have continued elsewhere.
	case err != nil, ended.Lease == 0 && hasEnded, ended.Lease != 0 && ended.Lease != past.LastLease():
		return nil
	case ended.Answer != nil && !c.Rights.Cover(ended.Rights):
		return nil
	}
	r.answer = g.answerOf(ctx, ended, c)
	return r
}

// status returns the run's status and code.
func (r *handedRun) status() (journal.Status, fault.Code) {
	switch {
	case r.answer == nil && r.hasEnded:
		return r.row.Status, r.row.Code
	case r.answer == nil:
		return journal.Running, ""
	case r.answer.Error == nil:
		return journal.OK, ""
	case r.answer.Error.Code == fault.ApprovalRequired:
		return journal.Waiting, r.answer.Error.Code
	}
	return journal.Failed, r.answer.Error.Code
}

// describe sets a task's message to the run's progress or, once the run has ended, its status and result.
func (r *handedRun) describe(t *task) {
	if t.Message = r.note; r.answer == nil {
		return
	}
	ttl := r.row.Expires.Sub(r.row.Began).Milliseconds()
	t.Status, t.TTL = taskCompleted, &ttl
	if _, code := r.status(); code == fault.Cancelled {
		t.Status = taskCancelled
		return
	}
	t.Result = marshal(&sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: string(r.answer.JSON)}}, IsError: !r.answer.OK})
}

// cancel asks workers to end a run.
func (g *generation) cancel(ctx context.Context, r *handedRun) error {
	ctx, cancel := context.WithTimeout(ctx, cancelTime)
	defer cancel()
	err := g.Durable.Cancel(ctx, r.id)
	if err == nil {
		return nil
	}
	g.Log.WarnContext(ctx, "a run could not be cancelled", "run", r.id.Run, "error", fault.Message(err))
	return &jsonrpc.Error{Code: jsonrpc.CodeInternalError,
		Message: "the run was not cancelled because its workers cannot be reached: try again"}
}
