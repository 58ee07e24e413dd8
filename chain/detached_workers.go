package chain

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/chain/internal/plan"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// Workers carry out runs in other processes, which have the same journal and finish the runs even if this process ends. A run is handed to
// them under an id, and under another one if it is handed to them again. Workers are safe for concurrent use.
type Workers interface {
	// Start hands a run to a worker, which carries it out as soon as its lease is free, with the rights that its caller has now. A fault
	// means that it is not known whether a worker will do so.
	Start(ctx context.Context, run *HandedRun) *fault.Error
	// State reports whether workers have yet to finish a run and, if so, whether no worker asks for work (idle). It fails if the engine
	// cannot be reached.
	State(ctx context.Context, id string) (running, idle bool, err error)
	// Answer waits until workers have finished a run. It fails if its answer is not known, with token_expired if it never will be (again).
	Answer(ctx context.Context, id string) (*HandedAnswer, error)
	// Cancel asks for a run to end. It does not wait.
	Cancel(ctx context.Context, id string) error
}

// HandedRun is a run that is handed to workers. The journal has its chain.
type HandedRun struct {
	ID             string // the id under which it is handed over
	Run            string // its id in the journal
	Lease          int64  // the lease under which it is handed over
	Key            string // the key by which workers find it, for its caller
	Name           string // the name of the chain; "": it has none
	MaxTotalTokens int    // the token limit of the answer; 0: unlimited
	Caller         *steps.Caller
	Results        budget.Rights // the caller's rights to stored results
}

// HandedAnswer is the answer of a run that workers have finished.
type HandedAnswer struct {
	Answer *Answer
	Lease  int64         // the last lease under which the run did something; 0: not known
	Rights budget.Rights // the rights with which Answer was made; a caller with fewer rights does not get it
	Fault  *fault.Error  // why workers did not carry out the run, which then has no Answer; else nil
}

// atWorkers is a run that was handed to workers.
type atWorkers struct {
	workers Workers
	request *request // of the caller who asks
	HandedRun
}

const (
	askTime    = 2 * time.Second  // the time limit for asking the engine about a run
	cancelTime = 10 * time.Second // the time limit for telling the engine to cancel a run
	maxAsked   = 16               // the runs that the engine is asked about at once
)

// handedRun returns the carrier of a run that is handed over under a lease.
func (s *request) handedRun(run string, lease int64) *atWorkers {
	return &atWorkers{s.detach.Workers, s, HandedRun{ID: fmt.Sprintf("%s.%d", run, lease), Run: run, Lease: lease}}
}

// giveKey refuses a chain for workers if there are none, and gives its run a key.
func (s *request) giveKey(r *plan.Request) *fault.Error {
	leased, key := s.ledger.Leased(), ""
	switch {
	case s.detach.Workers == nil:
		return fault.New(fault.NotSupported, "this server hands no runs to workers: leave this out. With async the run continues as long as "+
			"the server does, and with a key it can be resumed").Under("/durable")
	case leased == nil && r.Key != nil:
		return nil
	case leased == nil:
		key = rand.Text()
	case leased.Row.Key == "":
		return fault.New(fault.NotSupported, "this run began in a server, without a key by which workers could find it: resume it with "+
			"\"durable\": false").Under("/durable")
	default:
		key = leased.Row.CallersKey()
	}
	r.Key = &key
	return nil
}

// begin implements carrier.
func (w *atWorkers) begin(ctx context.Context, _ *request, _ *plan.Plan) *fault.Error {
	if f := w.workers.Start(ctx, &w.HandedRun); f != nil {
		return f
	}
	w.request.detach.Runs.drop(w.Run, nil)                             // it may have gone on here before
	_ = w.request.ledger.Record.EndUnfinished(journal.Waiting, "", "") // after an error the worker waits until the lease has ended
	return nil
}

// checkHanded refuses to hand over another run if workers have as many runs of the caller as they may. It does not count runs that are
// handed over at the same moment, nor those that the engine does not tell of within askTime: one that is silent takes no other run either.
func (s *request) checkHanded(ctx context.Context) *fault.Error {
	limit := s.detach.MaxHanded
	if limit <= 0 {
		return nil
	}
	rows, err := s.o.Journal.List(ctx, &journal.Filter{Callers: []string{s.caller}, AtWorkers: true})
	if err != nil {
		return fault.New(fault.Unavailable, "the run cannot be handed to workers now, as the journal cannot be read")
	}
	if len(rows) < limit {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	var (
		asked   errgroup.Group
		running atomic.Int64
	)
	asked.SetLimit(maxAsked)
	for i := range rows { // some ended before a worker took them, or run elsewhere
		asked.Go(func() error {
			if s.isAtWorkers(ctx, &rows[i]) && running.Add(1) == int64(limit) {
				cancel() // the others do not matter
			}
			return nil
		})
	}
	_ = asked.Wait() // it has no error
	if running.Load() < int64(limit) {
		return nil
	}
	return fault.New(fault.Busy, "%d of your runs go on at workers, which is the limit: wait until one has ended, and send this one again",
		limit)
}

// isAtWorkers reports whether workers have yet to finish a run.
func (s *request) isAtWorkers(ctx context.Context, row *journal.Row) bool {
	if row.HandoverLease < 0 { // an older version wrote it
		if read, f := s.runRow(ctx, row.ID); f == nil {
			row = read
		}
	}
	if row.HandoverLease <= 0 || row.Scope != s.o.Scope {
		return false
	}
	running, err := s.handedRun(row.ID, row.HandoverLease).isRunning(ctx)
	return err == nil && running
}

// isRunning reports whether workers have yet to finish the run.
func (w *atWorkers) isRunning(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	running, _, err := w.workers.State(ctx, w.ID)
	return running, err
}

// await implements carrier.
func (w *atWorkers) await(ctx context.Context, after time.Duration) *Answer {
	waiting, stop := context.WithTimeout(ctx, after)
	defer stop()
	ended, err := w.workers.Answer(waiting, w.ID)
	switch {
	case err == nil:
		return w.answer(ctx, ended)
	case ctx.Err() != nil:
		_ = w.cancel(context.WithoutCancel(ctx), nil) // after an error the run goes on
	}
	return nil
}

// answer returns the answer of the run.
func (w *atWorkers) answer(ctx context.Context, ended *HandedAnswer) *Answer {
	w.request.showUnknown()
	if ended.Fault != nil {
		return w.request.failureAnswer(ctx, ended.Fault)
	}
	return ended.Answer
}

// cancel implements carrier.
func (w *atWorkers) cancel(ctx context.Context, _ *fault.Error) error {
	ctx, cancel := context.WithTimeout(ctx, cancelTime)
	defer cancel()
	return w.workers.Cancel(ctx, w.ID)
}

// answerHandedOver answers a request for a run that workers have; nil: they do not have it. This process must not carry it out as well,
// since the workers would continue it in any case.
func (s *request) answerHandedOver(ctx context.Context) *Answer {
	past := s.ledger.Leased()
	if past == nil || past.Row.HandoverLease == 0 || past.Row.Status == journal.OK || s.detach.Workers == nil {
		return nil
	}
	w := s.handedRun(past.Row.ID, past.Row.HandoverLease)
	running, err := w.isRunning(ctx)
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
	run := &DetachedRun{Row: past.Row, carrier: w}
	run.Status, run.Code, run.Last = journal.Running, "", run.Began
	return startedAnswer(run)
}
