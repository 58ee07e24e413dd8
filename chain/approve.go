package chain

import (
	"context"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain/internal/ledger"
	"github.com/onecall-mcp/onecall/chain/internal/plan"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// MustApprove reports whether calls of a function need approval. A front end must not make such calls without the engine.
func (e *Engine) MustApprove(f *steps.Spec) bool { return plan.MustApprove(f, e.o.Approve) }

// Waiting returns the calls that a run waits for, in the form of ApprovalCall.JSON, for an operator. It fails with bad_request if the run
// does not wait for approval.
func Waiting(ctx context.Context, j *journal.Journal, run string) (calls []gjson.Result, err error) {
	past, err := j.Read(ctx, run, nil)
	if err != nil {
		return nil, err
	}
	return ledger.Stored(past)
}

// Approve approves the calls that a run waits for, for the operator by, and returns them. It fails with resume_conflict if digest is not
// that of the calls (DigestOf), and with bad_request if none wait. An empty digest approves whichever calls wait.
func Approve(ctx context.Context, j *journal.Journal, run, digest, by string) ([]gjson.Result, error) {
	return ledger.RecordDecision(ctx, j, run, digest, &ledger.Settlement{Kind: journal.Approved, By: by, Status: journal.MayContinue})
}

// Deny denies the calls that a run waits for; otherwise it is like Approve.
func Deny(ctx context.Context, j *journal.Journal, run, digest, by string) ([]gjson.Result, error) {
	return ledger.RecordDecision(ctx, j, run, digest,
		&ledger.Settlement{Kind: journal.Denied, By: by, Status: journal.Failed, Code: fault.Denied})
}

// DigestOf identifies a list of waiting calls.
func DigestOf(calls []gjson.Result) string { return ledger.DigestOf(calls) }
