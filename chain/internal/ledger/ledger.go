// Package ledger is what a request knows of its run: what an earlier attempt has done, what the run does, and what it has written.
package ledger

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/onecall-mcp/onecall/chain/internal/facts"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/rawjson"
	"github.com/onecall-mcp/onecall/steps"
)

// Ledger is the account of the run of one request. Its exported fields are set before it is used; a run may then use it from many
// goroutines.
type Ledger struct {
	Journal  *journal.Journal // nil: there is none
	Scope    string           // see chain.Options.Scope
	Caller   string
	User     string // see chain.Caller.User
	Rights   Rights // of the caller to kept results; nil: none
	Operator bool   // runs of any caller may be resumed
	IfHalted bool   // see chain.Caller.IfHalted
	ByPerson bool   // only a person can approve calls
	Console  string // see chain.Options
	// Credentials identify what the request brings for sources that are called as their callers (steps.Rights.Credentials).
	Credentials string
	// Spelling returns a compact chain as the journal spells it, whichever short forms it is written in.
	Spelling func(chain []byte) []byte

	Record     *journal.Run // the run as the journal records it; nil: it is not recorded
	Rehearsal  bool         // the run only follows its recorded calls, and makes none
	Resumption Resumption
	Replaced   map[int]string // the pointers, in the request, of the steps that it replaces, by number
	Resumes    time.Time      // when to resume the run, which was suspended; zero: it was not

	// What a failure tells its caller.
	ResumeToken  string              // names the run for a resume; "": it cannot be resumed
	ApproveToken string              // approves the calls that wait for approval; "": none wait, or only a person can approve them
	UndoneRun    string              // the id of the run that was undone; "": none
	Waiting      []facts.WaitingCall // calls that wait for approval
	Asks         bool                // the calls that wait can be approved by a Decision

	private   *journal.Journal // a journal for this run alone, if there is none but the run needs one; else nil
	leased    *journal.Past    // the run to resume, until Record is set
	previewed *journal.Past    // the run that a dry run looks at, without its lease
	undoCalls atomic.Int64     // the calls that undid others
	overruled []journal.Event  // denials, since when the caller's own approvals of calls do not hold
	refused   atomic.Bool      // the chain no longer makes calls that were made
	writes    writeLog
	unknown   []*journal.PastCall // calls with an unknown outcome; guarded by writes.mu
}

// Rights are the rights of a caller, as texts that the journal keeps.
type Rights interface {
	Text() string
	// CoversText reports whether these rights allow what those of a text do.
	CoversText(text string) bool
}

// Leased returns the run to resume, until Begin; nil: none.
func (l *Ledger) Leased() *journal.Past { return l.leased }

// Previewed returns the run that a dry run looks at; nil: none.
func (l *Ledger) Previewed() *journal.Past { return l.previewed }

// UndoCalls returns the number of calls that undid others.
func (l *Ledger) UndoCalls() int64 { return l.undoCalls.Load() }

// Begin begins to record the run that start describes, or continues the run that was taken. Without a journal, the run gets one of its own
// in memory.
func (l *Ledger) Begin(start *journal.Start) *fault.Error {
	if l.Journal == nil {
		private, err := journal.New(&journal.Memory{}, nil)
		if err != nil {
			return Fault(err, "nothing was run")
		}
		l.private = private
	}
	start.Caller, start.Scope, start.Canonical = l.Caller, l.Scope, canonical
	if l.leased == nil {
		l.Record = cmp.Or(l.Journal, l.private).Begin(start)
		return l.claimKey(start.Key)
	}
	record := l.Journal.Resume(l.leased, start)
	if f := l.applyResumption(record); f != nil {
		return f // nothing was written, and the run is released
	}
	l.Record, l.leased = record, nil
	return nil
}

// BeginUndo continues the run that was taken, to undo it.
func (l *Ledger) BeginUndo() *fault.Error {
	record := l.Journal.Resume(l.leased, nil)
	if f := applyAssumptions(record, l.Resumption.Assume); f != nil {
		return f
	}
	l.Record, l.leased = record, nil
	return nil
}

// Preview returns a ledger for a rehearsal of the run that a dry run looks at.
func (l *Ledger) Preview() (*Ledger, *fault.Error) {
	record := l.Journal.Resume(l.previewed, &journal.Start{Writes: true, Hash: func() string { return "" }, Canonical: canonical})
	if f := applyAssumptions(record, l.Resumption.Assume); f != nil {
		return nil, f
	}
	return l.rehearsal(record), nil
}

// Rehearse returns a ledger for a rehearsal of the run.
func (l *Ledger) Rehearse() *Ledger { return l.rehearsal(l.Record) }

func (l *Ledger) rehearsal(record *journal.Run) *Ledger {
	return &Ledger{Journal: l.Journal, Scope: l.Scope, Caller: l.Caller, ByPerson: l.ByPerson, Record: record.Rehearse(), Rehearsal: true}
}

// claimKey makes the run's key refer to this run.
func (l *Ledger) claimKey(key string) *fault.Error {
	if key == "" {
		return nil
	}
	err := l.Record.Claim()
	if err == nil {
		return nil
	}
	l.Record = nil
	if errors.Is(err, journal.ErrTaken) {
		return fault.New(fault.Busy, "another run with this key is in progress: try again when it has ended").Under("/key")
	}
	return Fault(err, "nothing was run")
}

// applyResumption records what the request says about earlier calls of the run: their outcomes, or an approval.
func (l *Ledger) applyResumption(record *journal.Run) *fault.Error {
	if f := applyAssumptions(record, l.Resumption.Assume); f != nil {
		return f
	}
	for _, denial := range l.overruled {
		record.Append(denial)
	}
	if l.Resumption.Approve != "" {
		return l.applyApproval(record)
	}
	return nil
}

// canonical returns the canonical form of arguments, which is the same for equal arguments. Arguments with duplicate keys have none and are
// compared as they are.
func canonical(args []byte) []byte {
	if text, err := rawjson.AppendCanonical(make([]byte, 0, len(args)), args); err == nil {
		return text
	}
	return args
}

// Fault is the fault for a journal that could not be read or written. consequence says what was not done because of it.
func Fault(err error, consequence string) *fault.Error {
	var f *fault.Error
	switch {
	case errors.Is(err, journal.ErrTaken):
		f = fault.New(fault.Busy, "%s: another process has taken over this run and continues it", consequence)
	case errors.Is(err, context.Canceled):
		f = fault.New(fault.Cancelled, "%s: the request was cancelled", consequence)
	case errors.Is(err, journal.ErrUnreadable):
		f = fault.New(fault.Unreadable, "%s: %s", consequence, fault.Message(err))
	default:
		cause := err.Error()
		if coded, ok := fault.As(err); ok {
			cause = coded.Message
		}
		f = fault.New(fault.Unavailable, "%s, as the journal cannot be used: %s", consequence, cause)
	}
	f.Err, f.Outcome = err, fault.NotSent
	return f
}

// Shown returns arguments as people see them, if the journal stores them.
func (l *Ledger) Shown(fn *steps.Entry, sent []byte) []byte {
	if !l.Record.StoresValues() {
		return nil
	}
	return fn.Shown(sent)
}

// Now returns the time that expressions use: when the run began, however often it is resumed. Zero: the run is not recorded.
func (l *Ledger) Now() time.Time {
	if l.Record == nil {
		return time.Time{}
	}
	return time.UnixMicro(l.Record.Began().UnixMicro()) // in microseconds, as the journal stores it
}
