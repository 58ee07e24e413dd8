package chain

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/onecall-mcp/onecall/chain/internal/ledger"
	"github.com/onecall-mcp/onecall/chain/internal/plan"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/rawjson"
)

// Background says how a run continues after its request was answered.
type Background struct {
	Context  context.Context // the context of the run, in place of that of the request
	Progress func(Progress)  // reports progress as Caller.Progress does, for as long as the run takes
	// End is called once, after the run has ended. a is nil if the request itself got the answer of the run.
	End func(a *Answer, stored StoredAnswer)
}

// StoredAnswer is an answer in the result store.
type StoredAnswer struct {
	Token string        // the continuation token of Answer.JSON; "": it could not be stored
	Life  time.Duration // how long the store keeps it, however often it is fetched; 0: it is not stored
}

// BackgroundRun describes a run that may outlast its request.
type BackgroundRun struct {
	ID    string
	Steps int // the number of steps of the outermost chain
	Began time.Time
}

// answersEarly reports whether a request may be answered before its chain has ended. If so, it also returns how long the request waits for
// the chain, and the field that asked for it.
func (s *request) answersEarly(r *plan.Request) (after time.Duration, early bool, field string) {
	if r.AsyncAfterMs != nil && !r.Async {
		after = time.Duration(*r.AsyncAfterMs) * time.Millisecond
	}
	switch {
	case s.background == nil:
		return 0, false, ""
	case r.Async:
		return 0, true, "async"
	case r.AsyncAfterMs != nil:
		return after, true, "asyncAfterMs"
	}
	return 0, r.Durable != nil && *r.Durable, "durable"
}

// checkBackground refuses a run in the background if there is no journal or no store for its answer.
func (s *request) checkBackground(at string) *fault.Error {
	const remedy = "leave it out, and the answer comes with the request"
	switch {
	case s.o.Journal == nil:
		return fault.New(fault.NotSupported,
			"runs are not recorded here (journal: {store: off}), so none can continue in the background: %s", remedy).Under(at)
	case s.form.Results == nil:
		return fault.New(fault.NotSupported, "there is no store for the answer of a run in the background: %s", remedy).Under(at)
	}
	return nil
}

// runInBackground runs a plan and answers with its result if it ends within after, else with the id of the run, which continues. Once the
// run has started, only the run uses s.
func (s *request) runInBackground(ctx context.Context, p *plan.Plan, after time.Duration) *Answer {
	if err := s.ledger.Record.Claim(); err != nil {
		s.ledger.Record = nil
		return s.failureAnswer(ctx, ledger.Fault(err, "nothing was run"))
	}
	id := s.ledger.Record.ID()
	b, f := s.background(ctx, s.backgroundRun(p))
	if f != nil {
		return s.notBegunAnswer(ctx, f)
	}
	s.detached = true
	if report := s.progress; report == nil {
		s.progress = b.Progress
	} else {
		s.progress = func(p Progress) {
			b.Progress(p)
			report(p)
		}
	}
	running, cancel := context.WithCancelCause(b.Context)
	stopWatching := func() bool { return true }
	answered, detached := make(chan *Answer), make(chan struct{})
	if after > 0 { // until it is answered, the request can cancel the run
		stopWatching = context.AfterFunc(ctx, func() {
			cause := context.Cause(ctx)
			if errors.Is(cause, context.DeadlineExceeded) {
				cause = fault.New(fault.Timeout, "the caller's deadline passed")
			}
			cancel(cause)
		})
	} else {
		s.askApproval = nil
		close(detached)
	}
	go func() {
		defer cancel(nil)
		a := s.complete(running, p)
		select {
		case <-detached:
			b.End(a, s.keepAnswer(running, a))
		case answered <- a:
			b.End(nil, StoredAnswer{})
		}
	}()
	if after == 0 {
		return startedAnswer(id)
	}
	timer := time.NewTimer(after)
	defer timer.Stop()
	select {
	case a := <-answered:
		return a
	case <-timer.C:
	}
	if !stopWatching() { // the caller has cancelled
		return <-answered
	}
	close(detached)
	return startedAnswer(id)
}

// backgroundRun describes the request's run.
func (s *request) backgroundRun(p *plan.Plan) BackgroundRun {
	return BackgroundRun{ID: s.ledger.Record.ID(), Steps: len(p.Steps), Began: s.ledger.Record.Began()}
}

// notBegunAnswer answers for a run that is in the journal and cannot begin.
func (s *request) notBegunAnswer(ctx context.Context, f *fault.Error) *Answer {
	s.ledger.EndUnfinished(f, journal.Failed)
	return s.failureAnswer(ctx, f)
}

// complete executes a plan to its answer, and ends the request.
func (s *request) complete(ctx context.Context, p *plan.Plan) (a *Answer) {
	defer func() { s.conclude(ctx, KindChain, &a, recover()) }()
	defer s.memory.End()
	return s.report(ctx, p, s.execute(ctx, p))
}

// keepAnswer stores an answer for its caller.
func (s *request) keepAnswer(ctx context.Context, a *Answer) (stored StoredAnswer) {
	stored.Token, _, _ = s.form.Results.Keep(context.WithoutCancel(ctx), s.caller, bytes.Clone(a.JSON)) // "" after an error
	if stored.Token != "" {
		stored.Life = s.form.Results.MaxTTL()
	}
	return stored
}

// startedAnswer answers a request whose run continues.
func startedAnswer(run string) *Answer {
	w := &rawjson.Writer{B: []byte("{")}
	w.Bool("ok", true)
	w.Text("run", run)
	w.Text("status", string(journal.Running))
	w.Text("note", `info {"run":"`+run+`"} tells how far it is, and once it has ended, how to get its answer`)
	return &Answer{OK: true, JSON: append(w.B, '}'), Run: run}
}

// KeepAnswer stores the answer of a run for its caller (nil: the zero Caller).
func (e *Engine) KeepAnswer(ctx context.Context, a *Answer, c *Caller) StoredAnswer {
	s := e.newRequest(c)
	if s.form.Results == nil {
		return StoredAnswer{}
	}
	return s.keepAnswer(ctx, a)
}

// StoredResult returns a value that the result store has for a caller (nil: the zero Caller), and how long it stays there if it is not used
// again. It fails with token_expired for any other token.
func (e *Engine) StoredResult(ctx context.Context, token string, c *Caller) ([]byte, time.Duration, error) {
	s := e.newRequest(c)
	if s.form.Results == nil || token == "" {
		return nil, 0, ledger.NotResumable("the answer of this run is not kept any more")
	}
	return s.form.Results.Value(ctx, s.caller, token)
}

// PastRun returns what a run of a caller (nil: the zero Caller) has done so far, wherever it runs. It fails with token_expired if the run
// is unknown, belongs to another caller or began in another scope.
func (e *Engine) PastRun(ctx context.Context, id string, c *Caller) (*journal.Past, error) {
	s := e.newRequest(c)
	f := ledger.NoSuchRun()
	if s.o.Journal != nil {
		if _, f = s.ledger.Take(ctx, id, true); s.ledger.Previewed() != nil {
			return s.ledger.Previewed(), nil // even if it cannot be resumed
		}
	}
	if f.Code == fault.TokenExpired {
		f = ledger.NotResumable("there is no such run of yours, or it is not kept any more")
	}
	return nil, f
}

// Durable hands runs to workers, which are other processes with the same journal. It is safe for concurrent use.
type Durable interface {
	// NewKey returns a key for a run whose request has none: workers find a run by its caller and key.
	NewKey() string
	// Start hands a run to a worker, which carries it out as soon as its lease is free. A fault means that it is not known whether a
	// worker will do so.
	Start(ctx context.Context, run *DurableRun) *fault.Error
	// Running reports whether workers have yet to finish a run.
	Running(ctx context.Context, run HandedRun) (bool, error)
	// Wait returns the answer of a run when workers are done with it. It fails if ctx ends first, or if the answer is not known.
	Wait(ctx context.Context, run HandedRun) (*Answer, error)
	// Cancel asks workers to cancel a run. It does not wait.
	Cancel(ctx context.Context, run HandedRun) error
}

// HandedRun identifies a run that is handed to workers. Each hand-over has its own lease.
type HandedRun struct {
	Run   string // its id
	Lease int64
}

// DurableRun is a run for workers. The journal has its chain.
type DurableRun struct {
	HandedRun
	Key            string // the key under which the journal has the run, for its caller
	Name           string // the name of the chain; "": it has none
	MaxTotalTokens int    // the token limit of the answer; 0: unlimited
}

// wantsWorkers reports whether workers carry out a run that may outlast its request.
func (s *request) wantsWorkers(r *plan.Request) bool {
	if r.Durable != nil {
		return *r.Durable
	}
	// Workers find a run by its key. A new run gets one (prepareDurable); a run to resume may have none.
	hasKey := s.ledger.Leased() == nil || s.ledger.Leased().Row.Key != ""
	return s.durable != nil && hasKey
}

// answerHandedOver answers a request for a run that workers have; nil: they do not have it. This process must not carry it out as well,
// since the workers would continue it in any case.
func (s *request) answerHandedOver(ctx context.Context) *Answer {
	past := s.ledger.Leased()
	if past == nil || past.HandoverLease == 0 || past.Row.Status == journal.OK || s.durable == nil {
		return nil
	}
	running, err := s.durable.Running(ctx, HandedRun{past.Row.ID, past.HandoverLease})
	switch {
	case err != nil:
		return s.failureAnswer(ctx, fault.New(fault.Unavailable,
			"it is not known whether workers still have this run, because their engine does not answer: nothing was run"))
	case !running:
		return nil
	case s.ledger.Resumption.ByID:
		return s.failureAnswer(ctx, fault.New(fault.Busy, "workers are still running this run: resume it when it has ended").Under("/resume"))
	}
	s.ledger.Release()
	return startedAnswer(past.Row.ID)
}

// prepareDurable refuses a chain for workers if there are none, and sets the key of its run.
func (s *request) prepareDurable(r *plan.Request) *fault.Error {
	key := ""
	switch {
	case s.durable == nil:
		return fault.New(fault.NotSupported, "this server hands no runs to workers: leave this out. With async the run continues as long as "+
			"the server does, and with a key it can be resumed").Under("/durable")
	case s.ledger.Leased() == nil && r.Key != nil:
		return nil
	case s.ledger.Leased() == nil:
		key = s.durable.NewKey()
	case s.ledger.Leased().Row.Key == "":
		return fault.New(fault.NotSupported, "this run began in a server, without a key by which workers could find it: resume it with "+
			"\"durable\": false").Under("/durable")
	default:
		key = s.ledger.Leased().Row.CallersKey()
	}
	r.Key = &key
	return nil
}

// runDurably hands a run to workers, and answers with its result if it ends within after, else with its id.
func (s *request) runDurably(ctx context.Context, p *plan.Plan, r *plan.Request, after time.Duration) *Answer {
	lease := s.ledger.Record.HandOver()
	if err := s.ledger.Record.Claim(); err != nil {
		return s.failureAnswer(ctx, ledger.Fault(err, "nothing was run"))
	}
	run := &DurableRun{HandedRun: HandedRun{s.ledger.Record.ID(), lease}, Key: *r.Key, Name: s.runName(p, r), MaxTotalTokens: s.maxTokens}
	if f := s.durable.Start(ctx, run); f != nil {
		return s.notBegunAnswer(ctx, f) // a worker that has learned of the run sees that it has failed
	}
	_ = s.ledger.Record.EndUnfinished(journal.Waiting, "", "") // after an error the worker waits until the lease has ended
	if after > 0 {
		if a := s.awaitWorkers(ctx, run.HandedRun, after); a != nil {
			return a
		}
	}
	return startedAnswer(run.Run)
}

// awaitWorkers returns the answer of a run; nil: there is none in time. Until then the request can cancel the run.
func (s *request) awaitWorkers(ctx context.Context, run HandedRun, after time.Duration) *Answer {
	waitCtx, cancel := context.WithTimeout(ctx, after)
	defer cancel()
	a, err := s.durable.Wait(waitCtx, run)
	switch {
	case err == nil:
		return a
	case ctx.Err() != nil:
		_ = s.durable.Cancel(context.WithoutCancel(ctx), run) // after an error the run continues
	}
	return nil
}
