package mcp

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
)

// backgroundRuns are the runs of this process that continued after their requests were answered, by id. Ended runs are kept for as long
// as their answers may be. The zero value is empty.
type backgroundRuns struct {
	mu   sync.Mutex
	byID map[string]*backgroundRun
}

// backgroundRun is a run in the background. Its fields are guarded by backgroundRuns.mu.
type backgroundRun struct {
	chain.BackgroundRun
	caller    string
	cancel    context.CancelCauseFunc
	done      int       // steps that have ended
	updated   time.Time // when it last reported progress or ended; at first, when it began
	cancelled bool      // its caller cancelled it

	ended    time.Time // when the run ended; zero: it has not ended yet
	status   journal.Status
	code     fault.Code    // the code of its failure; "": it succeeded
	token    string        // the continuation token of its answer; "": the answer could not be stored
	lifetime time.Duration // how long its answer is kept at most
}

func (b *backgroundRuns) add(r *backgroundRun) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.byID == nil {
		b.byID = map[string]*backgroundRun{}
	}
	for id, other := range b.byID {
		if !other.ended.IsZero() && time.Since(other.ended) > max(other.lifetime, budget.DefaultMaxTTL) {
			delete(b.byID, id)
		}
	}
	b.byID[r.ID] = r
}

// find returns the current state of a caller's run; false: this process does not have it.
func (b *backgroundRuns) find(id, caller string) (backgroundRun, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.byID[id]
	if r == nil || r.caller != caller {
		return backgroundRun{}, false
	}
	return *r, true
}

// drop removes a run that was handed to workers.
func (b *backgroundRuns) drop(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.byID, id)
}

// stop cancels a caller's run, and reports whether this process has it. A run that has ended stays as it is.
func (b *backgroundRuns) stop(id, caller string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.byID[id]
	if r == nil || r.caller != caller {
		return false
	}
	r.cancelled = r.cancelled || r.ended.IsZero()
	r.cancel(fault.New(fault.Cancelled, "the task was cancelled"))
	return true
}

// continueInBackground prepares the call's run to continue after the call is answered. It is used as chain.Caller.Background.
func (c *call) continueInBackground(ctx context.Context, run chain.BackgroundRun) (*chain.Background, *fault.Error) {
	ctx, end, refused := c.transportRequest.Detach(ctx)
	if refused != nil {
		return nil, refused
	}
	s := c.toolset.server
	ctx, cancel := context.WithCancelCause(ctx)
	s.pin(c.now)
	r, runs := &backgroundRun{BackgroundRun: run, caller: c.caller.ID, cancel: cancel, updated: run.Began}, &s.runs
	runs.add(r)
	return &chain.Background{
		Context: ctx,
		Progress: func(p chain.Progress) {
			runs.mu.Lock()
			defer runs.mu.Unlock()
			r.done, r.updated = p.Done, time.Now()
		},
		End: func(a *chain.Answer, stored chain.StoredAnswer) {
			runs.end(r, a, stored)
			cancel(nil)
			s.unpin(c.now)
			end()
		},
	}, nil
}

// end records the end of a run. If a is nil, the request was answered with the result of the run, and the run is dropped.
func (b *backgroundRuns) end(r *backgroundRun, a *chain.Answer, stored chain.StoredAnswer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if a == nil {
		if b.byID[r.ID] == r {
			delete(b.byID, r.ID)
		}
		return
	}
	r.ended = time.Now()
	r.updated, r.token, r.lifetime, r.status = r.ended, stored.Token, stored.Life, journal.OK
	if a.Error == nil {
		return
	}
	if r.status, r.code = journal.Failed, a.Error.Code; r.code == fault.ApprovalRequired {
		r.status = journal.Waiting
	}
}

// runProgress is the answer of info with run.
type runProgress struct {
	Run       string          `json:"run"`
	Status    journal.Status  `json:"status"`
	Code      fault.Code      `json:"code,omitempty"`
	Steps     int             `json:"steps"`
	Done      *int            `json:"done,omitempty"` // steps that have ended
	Calls     int             `json:"calls,omitempty"`
	Began     string          `json:"began"`
	Millis    int             `json:"ms"`
	Fetch     json.RawMessage `json:"fetch,omitempty"` // arguments that chain answers with the run's answer
	ExpiresIn int             `json:"expires_in,omitempty"`
	Note      string          `json:"note,omitempty"`
}

// runInfo describes the progress of one of the caller's runs.
func (c *call) runInfo(id string) *sdk.CallToolResult {
	r, ok := c.toolset.server.runs.find(id, c.caller.ID)
	if ok && r.ended.IsZero() {
		return c.backgroundRun(&r)
	}
	past, err := c.now.Engine.PastRun(c.ctx, id, c.caller)
	if ok && (err != nil || !past.Row.Last.After(r.ended)) { // otherwise it was resumed after r ended, and not in the background
		return c.backgroundRun(&r)
	}
	if err != nil {
		f, coded := fault.As(err)
		if !coded {
			f = fault.New(fault.Unavailable, "the run's state is unavailable because the journal cannot be read")
		}
		return c.refuse(f.Under("/run"))
	}
	if r := c.now.handedOver(c.ctx, c.caller, past); r != nil {
		return c.workersRun(r)
	}
	return c.journaledRun(&past.Row)
}

// backgroundRun describes a run that is, or was, in the background of this process.
func (c *call) backgroundRun(r *backgroundRun) *sdk.CallToolResult {
	id := r.ID
	shown := &runProgress{Run: id, Status: journal.Running, Steps: r.Steps, Done: &r.done, Began: stamp(r.Began),
		Millis: int(time.Since(r.Began).Milliseconds())}
	if !r.ended.IsZero() {
		shown.Status, shown.Code, shown.Millis = r.status, r.code, int(r.ended.Sub(r.Began).Milliseconds())
		if _, lifetime, err := c.now.Engine.StoredResult(c.ctx, r.token, c.caller); err == nil {
			shown.offer(chain.StoredAnswer{Token: r.token, Life: lifetime})
		} else {
			shown.Note = noteOf(r.status, id)
		}
	}
	result, _ := c.deliver(marshal(shown), 0)
	return result
}

// workersRun describes a run that was handed to workers.
func (c *call) workersRun(r *handedRun) *sdk.CallToolResult {
	status, code := r.status()
	shown := &runProgress{Run: r.row.ID, Status: status, Code: code, Steps: r.row.Steps, Calls: r.row.Calls, Began: stamp(r.row.Began),
		Millis: int(r.row.Took.Milliseconds()), Note: r.note}
	if r.answer != nil {
		stored := c.now.Engine.KeepAnswer(c.ctx, r.answer, c.caller)
		if _, stored.Life, _ = c.now.Engine.StoredResult(c.ctx, stored.Token, c.caller); stored.Life > 0 {
			shown.offer(stored)
		}
	}
	result, _ := c.deliver(marshal(shown), 0)
	return result
}

// offer adds the arguments that fetch the run's answer.
func (p *runProgress) offer(stored chain.StoredAnswer) {
	p.Fetch = marshal(map[string]any{"continuation_token": stored.Token, "mode": "full", "lite": true})
	p.ExpiresIn, p.Note = int(stored.Life.Seconds()), "send fetch as the arguments of chain: its answer is that of the run"
}

// journaledRun describes a run that is not in the background of this process: it was answered, or belongs to another process.
func (c *call) journaledRun(row *journal.Row) *sdk.CallToolResult {
	id := row.ID
	shown := &runProgress{Run: id, Status: row.Status, Code: row.Code, Steps: row.Steps, Calls: row.Calls, Began: stamp(row.Began),
		Millis: int(row.Took.Milliseconds()), Note: noteOf(row.Status, id)}
	result, _ := c.deliver(marshal(shown), 0)
	return result
}

// noteOf returns what a caller can do about a run whose answer is not available.
func noteOf(status journal.Status, id string) string {
	switch status {
	case journal.Running:
		return "another request, or another process, carries it out"
	case journal.OK, journal.Undone:
		return "its answer is not here any more: a chain with a key that is sent again is answered as before"
	}
	return `chain {"resume":"` + id + `"} goes on with it: what it has done is not done again`
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
