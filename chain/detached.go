package chain

import (
	"context"
	"errors"
	"time"

	"github.com/onecall-mcp/onecall/chain/internal/ledger"
	"github.com/onecall-mcp/onecall/chain/internal/plan"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/rawjson"
	"github.com/onecall-mcp/onecall/steps"
)

// Detach says how the runs of a caller outlast their requests, if their chains ask for it (async, asyncAfterMs, durable). With the zero
// value they do not: such a chain is answered at its end, like any other.
type Detach struct {
	// Hold keeps what a run in this process needs, until release is called. held is the context of the run, in place of ctx, that of its
	// request. A fault refuses the run. nil: no run outlasts its request.
	Hold func(ctx context.Context) (held context.Context, release func(), refused *fault.Error)
	// Runs has the runs that go on in this process. Hold needs it.
	Runs *DetachedRuns
	// Workers carry out runs in place of this process; nil: there are none, and a chain that asks for them (durable) is refused with
	// not_supported.
	Workers Workers
	// MaxHanded is how many of the caller's runs workers may have; 0 or less: unlimited.
	MaxHanded int
	// As is the caller for whom workers carry out runs.
	As *steps.Caller
}

// DetachedRun is the state of a run that may have outlasted its request.
type DetachedRun struct {
	// Row is the run as the journal has it. Of a run in this process, it has only ID, Status, Code, Steps, Began, Last, Took and Lease.
	journal.Row
	Done      int           // the steps that have ended; -1: only the process that carries it out knows
	Cancelled bool          // it was cancelled: by Cancel or, at workers, in another way
	Note      string        // what workers do about it, or that Answer cannot be read now, for its caller; "": neither
	Answer    []byte        // nil: it has not ended, or its answer is not kept any more
	Text      bool          // Answer is a text, as a string of JSON; see Answer.Text
	Lifetime  time.Duration // how long Answer is kept from now on

	token   string // the continuation token of Answer; "": it has none
	request *request
	carrier carrier // nil: neither this process nor workers carry it out
}

// carrier carries out a run that may outlast its request: this process (here), or workers (atWorkers).
type carrier interface {
	// begin takes on the run of s. Once it has done so, only the carrier uses s. After a fault it is not known whether the run goes on.
	begin(ctx context.Context, s *request, p *plan.Plan) *fault.Error
	// await returns the answer of the run, or nil if it takes longer than that. Until then the end of ctx cancels the run.
	await(ctx context.Context, after time.Duration) *Answer
	// cancel asks for the run to end. It does not wait.
	cancel(ctx context.Context, cause *fault.Error) error
}

// DetachedRun returns the state of a run of a caller (nil: the zero Caller), wherever it is carried out. Of a run that has ended in this
// process it returns that end; with latest, what has become of the run since then, if it was resumed. It fails with token_expired if the
// run is unknown, belongs to another caller or began in another scope.
func (e *Engine) DetachedRun(ctx context.Context, id string, latest bool, c *Caller) (*DetachedRun, *fault.Error) {
	s := e.newRequest(c)
	run, isHere := s.detach.Runs.find(id, s.caller)
	if isHere && (run.Status == journal.Running || !latest) {
		return s.withAnswer(ctx, &run), nil
	}
	row, f := s.runRow(ctx, id)
	resumed := f == nil && row.LastLease > run.Lease // or decided about, and not in the background of this process
	switch {
	case isHere && !resumed:
		return s.withAnswer(ctx, &run), nil
	case f != nil:
		return nil, f
	}
	if handed := s.handedState(ctx, row); handed != nil {
		return handed, nil
	}
	return s.withStoredAnswer(ctx, &DetachedRun{Row: *row, Done: -1}), nil
}

// Cancel ends the run if it goes on in this process, with cause, or asks workers to end it. It does not wait. It does nothing if the run
// has ended, and fails if workers cannot be reached.
func (r *DetachedRun) Cancel(ctx context.Context, cause *fault.Error) error {
	if r.carrier == nil {
		return nil
	}
	return r.carrier.cancel(ctx, cause)
}

// Keep returns a continuation token for the run's answer, and how long it is valid if it is not used again. "": there is no answer, or it
// cannot be stored.
func (r *DetachedRun) Keep(ctx context.Context) (token string, lifetime time.Duration) {
	if r.token == "" && r.Answer != nil && r.request.form.Results != nil {
		kept, expiresIn, err := r.request.form.Results.Keep(ctx, r.request.caller, r.Answer)
		if err == nil {
			r.token, r.Lifetime = kept, expiresIn
		}
	}
	return r.token, r.Lifetime
}

// runRow returns the row of a run of the request's caller, wherever it is carried out.
func (s *request) runRow(ctx context.Context, id string) (row *journal.Row, f *fault.Error) {
	err := journal.ErrNotFound
	if s.o.Journal != nil {
		row, err = s.o.Journal.ReadRow(ctx, id, s.caller, s.o.Scope)
	}
	switch {
	case errors.Is(err, journal.ErrNotFound):
		return nil, ledger.NotResumable("there is no such run of yours, or it is not kept any more")
	case err != nil:
		return nil, ledger.Fault(err, "the state of the run is not known")
	}
	return row, nil
}

// detachment is how a run outlasts its request.
type detachment struct {
	field  string        // the field of the request that asks for it; "": the run does not outlast its request
	after  time.Duration // how long the request waits for the run
	handed bool          // workers carry it out, else this process
}

// detachment returns how the run of a request outlasts it.
func (s *request) detachment(ctx context.Context, r *plan.Request) (d detachment, refused *fault.Error) {
	switch {
	case s.detach.Hold == nil:
		return d, nil
	case r.Async:
		d.field = "async"
	case r.AsyncAfterMs != nil:
		d.field, d.after = "asyncAfterMs", time.Duration(*r.AsyncAfterMs)*time.Millisecond
	case r.Durable != nil && *r.Durable:
		d.field = "durable"
	default:
		return d, nil
	}
	leased := s.ledger.Leased()
	if r.Durable != nil {
		d.handed = *r.Durable
	} else { // workers find a run by its key. A new run gets one (giveKey); a run to resume may have none
		d.handed = s.detach.Workers != nil && (leased == nil || leased.Row.Key != "")
	}
	const remedy = "leave it out, and the answer comes with the request"
	switch {
	case d.handed && leased != nil && leased.Row.Status == journal.OK: // the journal has its answer: no worker is needed
		return detachment{}, nil
	case s.o.Journal == nil:
		refused = fault.New(fault.NotSupported,
			"runs are not recorded here (journal: {store: off}), so none can continue in the background: %s", remedy).Under("/" + d.field)
	case s.form.Results == nil:
		refused = fault.New(fault.NotSupported,
			"there is no store for the answer of a run in the background: %s", remedy).Under("/" + d.field)
	case d.handed:
		if refused = s.giveKey(r); refused == nil {
			refused = s.checkHanded(ctx)
		}
	}
	return d, refused
}

// runDetached has a carrier run a plan, and answers with the result if the run ends in time, else with its id.
func (s *request) runDetached(ctx context.Context, p *plan.Plan, r *plan.Request, d detachment) *Answer {
	record := s.ledger.Record
	run := &DetachedRun{Row: journal.Row{ID: record.ID(), Status: journal.Running, Steps: len(p.Steps), Began: record.Began(),
		Last: record.Began(), Lease: record.Lease()}}
	if d.handed {
		w := s.handedRun(run.ID, record.HandOver())
		w.Key, w.Name, w.MaxTotalTokens, w.Caller, w.Results = *r.Key, s.runName(p, r), s.maxTokens, s.detach.As, s.rights
		run.carrier = w
	} else {
		run.carrier = s.here(run, d.after > 0)
	}
	if err := record.Claim(); err != nil {
		s.ledger.Record = nil
		return s.failureAnswer(ctx, ledger.Fault(err, "nothing was run"))
	}
	if f := run.carrier.begin(ctx, s, p); f != nil {
		s.ledger.EndUnfinished(f, journal.Failed) // a worker that has learned of the run sees that it has failed
		return s.failureAnswer(ctx, f)
	}
	if d.after > 0 {
		if a := run.carrier.await(ctx, d.after); a != nil {
			return a
		}
	}
	return startedAnswer(run)
}

// startedAnswer answers a request whose run goes on.
func startedAnswer(run *DetachedRun) *Answer {
	w := &rawjson.Writer{B: []byte("{")}
	w.Bool("ok", true)
	w.Text("run", run.ID)
	w.Text("status", string(journal.Running))
	w.Text("note", `info {"run":"`+run.ID+`"} tells how far it is, and once it has ended, how to get its answer`)
	return &Answer{OK: true, JSON: append(w.B, '}'), Detached: run}
}
