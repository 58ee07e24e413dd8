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
