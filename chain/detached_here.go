package chain

import (
	"bytes"
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/chain/internal/plan"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
)

// DetachedRuns are the runs of a process that go on after their requests, and those that have ended, for as long as their answers may be
// kept. Engines of the process share them. The zero value is empty.
type DetachedRuns struct {
	mu   sync.Mutex
	byID map[string]*here
}

// here is a run that this process carries out.
type here struct {
	runs   *DetachedRuns
	run    DetachedRun // its Status is that of the run; guarded by runs.mu
	caller string
	stop   context.CancelCauseFunc

	waits    atomic.Bool  // the request waits for the run; who swaps it decides whether the request gets the answer
	answered chan *Answer // takes the answer if the request gets it
}

// here returns the carrier of the request's run. waits: the request waits for it.
func (s *request) here(run *DetachedRun, waits bool) *here {
	h := &here{runs: s.detach.Runs, run: *run, caller: s.caller, answered: make(chan *Answer)}
	h.run.carrier = h
	if h.waits.Store(waits); !waits {
		s.askApproval = nil
	}
	return h
}

// begin implements carrier.
func (h *here) begin(ctx context.Context, s *request, p *plan.Plan) *fault.Error {
	held, release, refused := s.detach.Hold(ctx)
	if refused != nil {
		return refused
	}
	held, h.stop = context.WithCancelCause(held)
	h.runs.add(h, s.form.Results)
	s.detached, s.progress = true, h.observe(s.progress)
	awaited := false
	s.answering = func() {
		if awaited = h.waits.Swap(false); !awaited {
			s.form.MaxBlockBytes = 0 // the answer is fetched later, as a text
		}
	}
	go func() {
		defer release()
		defer h.stop(nil)
		a := s.complete(held, p)
		if awaited || h.waits.Swap(false) {
			h.answered <- a
			h.runs.drop(h.run.ID, h)
			return
		}
		token := answerToken(s.o.Journal, &h.run.Row, a.Text)
		_ = s.form.Results.KeepAs(context.WithoutCancel(held), s.caller, token, bytes.Clone(a.AsJSON())) // after an error it finds nothing
		h.end(a, token)
	}()
	return nil
}

// complete executes a plan to its answer, and ends the request.
func (s *request) complete(ctx context.Context, p *plan.Plan) (a *Answer) {
	defer func() { s.conclude(ctx, KindChain, &a, recover()) }()
	defer s.memory.End()
	return s.report(ctx, p, s.execute(ctx, p))
}

// await implements carrier.
func (h *here) await(ctx context.Context, after time.Duration) *Answer {
	timer := time.NewTimer(after)
	defer timer.Stop()
	select {
	case a := <-h.answered:
		return a
	case <-timer.C:
	case <-ctx.Done():
	}
	switch cause := context.Cause(ctx); {
	case cause == nil && h.waits.Swap(false):
		return nil
	case errors.Is(cause, context.DeadlineExceeded):
		h.stop(fault.New(fault.Timeout, "the caller's deadline passed"))
	case cause != nil:
		h.stop(cause)
	}
	return <-h.answered
}

// cancel implements carrier.
func (h *here) cancel(_ context.Context, cause *fault.Error) error {
	h.runs.mu.Lock()
	defer h.runs.mu.Unlock()
	if h.run.Status == journal.Running {
		h.run.Cancelled = true
		h.stop(cause)
	}
	return nil
}

// observe returns a function that records progress, and passes it on to report (nil: to nobody).
func (h *here) observe(report func(Progress)) func(Progress) {
	return func(p Progress) {
		h.runs.mu.Lock()
		if h.run.Status == journal.Running {
			h.run.Done, h.run.Last = p.Done, time.Now()
		}
		h.runs.mu.Unlock()
		if report != nil {
			report(p)
		}
	}
}

// end records the end of the run.
func (h *here) end(a *Answer, token string) {
	h.runs.mu.Lock()
	defer h.runs.mu.Unlock()
	r := &h.run
	r.Last = time.Now()
	r.Took, r.token, r.Text = r.Last.Sub(r.Began), token, a.Text
	r.Status, r.Code = statusOf(a)
	r.Cancelled = r.Cancelled && r.Code == fault.Cancelled
}

// statusOf returns the status of a run with this answer, and the code of its failure.
func statusOf(a *Answer) (journal.Status, fault.Code) {
	switch {
	case a.Error == nil:
		return journal.OK, ""
	case a.Error.Code == fault.ApprovalRequired:
		return journal.Waiting, a.Error.Code
	}
	return journal.Failed, a.Error.Code
}

// answerToken returns the token under which the answer to what a run did under its lease is stored, so that another process that shares the
// journal and the results finds it. isText: it is a text, as a string of JSON.
func answerToken(j *journal.Journal, r *journal.Row, isText bool) string {
	mac := j.MAC([]byte("answer"), []byte(r.ID), strconv.AppendInt(nil, r.Lease, 10), strconv.AppendBool(nil, isText))
	return budget.TokenOf([16]byte(mac))
}

// withStoredAnswer completes the state of a run that ended in another process with its answer, if that is stored where this one finds it.
func (s *request) withStoredAnswer(ctx context.Context, r *DetachedRun) *DetachedRun {
	if s.form.Results == nil || r.Status == journal.Running || r.Status == journal.Interrupted || r.Status == journal.MayContinue {
		return r
	}
	answered := r.Row
	answered.Lease = r.LastLease
	for _, isText := range []bool{false, true} {
		r.token = answerToken(s.o.Journal, &answered, isText)
		if s.withAnswer(ctx, r); r.Answer != nil {
			r.Text, r.Cancelled = isText, r.Code == fault.Cancelled
			break
		}
	}
	return r
}

// withAnswer completes the state of a run with its answer, if it has a token that the request's caller may use.
func (s *request) withAnswer(ctx context.Context, r *DetachedRun) *DetachedRun {
	r.request = s
	if r.token == "" || s.form.Results == nil {
		return r
	}
	answer, lifetime, err := s.form.Results.Value(ctx, s.caller, r.token)
	if err != nil {
		if r.token = ""; fault.CodeOf(err) != fault.TokenExpired {
			r.Note = "its answer cannot be read now: ask again"
		}
		return r
	}
	r.Answer, r.Lifetime, r.Note = answer, lifetime, ""
	s.takeLabels(ctx, r.token)
	return r
}

// add adds a run, and drops those whose answers have expired in any case.
func (d *DetachedRuns) add(h *here, results *budget.Results) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.byID == nil {
		d.byID = map[string]*here{}
	}
	for id, other := range d.byID {
		if other.run.Status != journal.Running && time.Since(other.run.Last) > max(results.MaxTTL(), budget.DefaultMaxTTL) {
			delete(d.byID, id)
		}
	}
	d.byID[h.run.ID] = h
}

// find returns the current state of a caller's run; false: this process does not have it.
func (d *DetachedRuns) find(id, caller string) (run DetachedRun, ok bool) {
	if d == nil {
		return run, false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	h := d.byID[id]
	if h == nil || h.caller != caller {
		return run, false
	}
	if run = h.run; run.Status == journal.Running {
		run.Took = time.Since(run.Began)
	}
	return run, true
}

// drop removes a run if h carries it out (nil: whatever does).
func (d *DetachedRuns) drop(id string, h *here) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if h == nil || d.byID[id] == h {
		delete(d.byID, id)
	}
}
