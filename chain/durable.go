package chain

import (
	"context"
	"time"

	"github.com/onecall-mcp/onecall/chain/internal/ledger"
	"github.com/onecall-mcp/onecall/chain/internal/plan"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
)

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
