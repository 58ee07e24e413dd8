package chain

import (
	"context"
	"time"

	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
)

// Durable hands runs to workers, which are other processes with the same journal.
type Durable struct {
	// NewKey returns a key for a run whose request has none: workers find a run by its key.
	NewKey func() string
	// Start has a worker carry out a run. Until the request is answered the run's lease may still be taken. ended receives the run's
	// answer if the run ends while this process follows it. A fault means that no worker carries it out.
	Start func(ctx context.Context, run *DurableRun) (ended <-chan *Answer, f *fault.Error)
}

// DurableRun is a run for workers.
type DurableRun struct {
	BackgroundRun
	Key            string // in the journal
	Chain          []byte // as it is to run, without Key
	Name           string // of the chain; "": none
	MaxTotalTokens int    // of the answer; 0: unlimited
}

// forWorkers reports whether a run that goes on after its request is carried out by workers.
func (s *requestState) forWorkers(r *request) bool {
	if r.Durable != nil {
		return *r.Durable
	}
	hasKey := s.leasedRun == nil || s.leasedRun.Row.Key != ""
	return s.durable != nil && hasKey
}

// prepareDurable refuses a chain for workers if there are none, and gives a new run a key.
func (s *requestState) prepareDurable(r *request) *fault.Error {
	switch {
	case s.durable == nil:
		return fault.New(fault.NotSupported, "this server hands no runs to workers: leave this out. With async the run goes on as long as "+
			"the server does, and with a key it can be resumed").Under("/durable")
	case r.Key != nil:
	case s.leasedRun == nil:
		key := s.durable.NewKey()
		r.Key = &key
	case s.leasedRun.Row.Key == "":
		return fault.New(fault.NotSupported, "this run began in a server, without a key by which workers could find it: resume it with "+
			"\"durable\": false").Under("/durable")
	default:
		key := s.leasedRun.Row.CallersKey()
		r.Key = &key
	}
	return nil
}

// runDurably hands a run to workers, and answers with its result if it ends within after, else with its id.
func (s *requestState) runDurably(ctx context.Context, p *plan, r *request, after time.Duration) *Answer {
	if err := s.record.Claim(); err != nil {
		s.record = nil
		return s.failureAnswer(ctx, journalFault(err, "nothing was run"))
	}
	run := &DurableRun{BackgroundRun: s.backgroundRun(p), Key: *r.Key, Chain: s.effectiveText(p, r), Name: s.runName(p, r),
		MaxTotalTokens: s.maxTokens}
	ended, f := s.durable.Start(ctx, run)
	if f != nil {
		return s.notBegunAnswer(ctx, f)
	}
	_ = s.record.EndUnfinished(journal.Running, "") // after an error the worker waits until the lease has ended
	if after > 0 {
		timer := time.NewTimer(after)
		defer timer.Stop()
		select {
		case a := <-ended:
			return a
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	return startedAnswer(run.ID)
}
