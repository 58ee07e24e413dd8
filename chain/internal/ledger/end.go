package ledger

import (
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
)

// EndUnfinished records the end of a failed run, which can be resumed from then on. The run ends with status, except that it is
// journal.Waiting if it waits for approval or is suspended, and stays what it was if another chain was refused. If err is nil,
// EndUnfinished does nothing.
func (l *Ledger) EndUnfinished(err *fault.Error, status journal.Status) {
	if l.Record == nil || err == nil {
		return
	}
	code, message := err.Code, err.Message
	if len(l.Waiting) > 0 {
		status, code = journal.Waiting, fault.ApprovalRequired
	}
	if !l.Resumes.IsZero() {
		status, code, message = journal.Waiting, "", ""
	}
	if past := l.Record.Past(); past != nil && past.Row.Status == journal.OK && (l.Resumption.Again || code == fault.ResumeConflict) {
		status, code, message = journal.OK, "", "" // it was done, whatever became of the request that asked for the answer again
	}
	if l.refused.Load() && err.Code == fault.ResumeConflict && len(l.Waiting) == 0 {
		if refused, failed := l.Record.EndRefused(err.Code, err.Message); refused {
			if failed == nil {
				l.ResumeToken = l.Record.ID()
			}
			return
		}
	}
	if l.Record.EndUnfinished(status, code, message) != nil || l.private != nil {
		return
	}
	l.ResumeToken = l.Record.ID()
	if status != journal.Waiting || !l.Resumes.IsZero() {
		return
	}
	l.Asks = true
	if !l.NeedsPerson() {
		l.ApproveToken = approveTokenOf(l.Journal, l.Record.Past())
	}
}

// Proof proves that the run waits for exactly its waiting calls; it cannot be forged.
func (l *Ledger) Proof() string { return proofOf(l.Journal, l.Record.Past()) }

// Close ends the ledger of a request that was answered, with a failure if that is not nil. tokens are those of the answer, and stored those
// of the results that it leaves out.
func (l *Ledger) Close(failure *fault.Error, tokens, stored int) {
	l.Release()
	if l.Record == nil {
		return
	}
	if failure != nil && l.ResumeToken == "" {
		// The failure is not recorded yet: a panic, or the result was lost.
		_ = l.Record.EndUnfinished(journal.Failed, failure.Code, failure.Message)
	}
	if l.Resumes.IsZero() {
		l.Record.Answered(tokens, stored)
	} else { // no caller reads this answer
		l.Record.Answered(0, 0)
	}
	if l.private != nil {
		_ = l.private.Close() // its only run has ended
	}
}
