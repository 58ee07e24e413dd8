package journal

import (
	"time"

	"github.com/onecall-mcp/onecall/fault"
)

// EndUnfinished ends a run that is not ok, durably and before its answer is sent, and releases its lease, so that the caller can resume it.
// message says why. After an error it cannot be resumed.
func (r *Run) EndUnfinished(status Status, code fault.Code, message string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.row.Status, r.row.Code = status, code
	return r.end(Stopped, code, message)
}

// EndUndone is like EndUnfinished, for a run that was undone but for left calls.
func (r *Run) EndUndone(left int, code fault.Code, message string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.row.Status, r.row.Code, r.row.Left = Undone, code, left
	return r.end(Stopped, code, message)
}

// EndRefused is like EndUnfinished, for a run whose resume was refused: the chain that it sent is not the run's, and a run that had ended
// stays what it was. If that chain was accepted before, or has begun a call that writes, EndRefused does nothing, and refused is false.
func (r *Run) EndRefused(code fault.Code, message string) (refused bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.mayRefuse {
		return false, nil
	}
	was := &r.past.Row
	r.row.Status, r.row.Code = Failed, code
	if was.Code != "" || was.Status == OK || was.Status == MayContinue {
		r.row.Status, r.row.Code = was.Status, was.Code
	}
	r.row.Steps, r.row.Functions, r.hash = was.Steps, was.Functions, func() string { return was.Hash }
	return true, r.end(Refused, code, message)
}

// end writes the end of a run whose row says how it ended. r.mu is held.
func (r *Run) end(kind Kind, code fault.Code, message string) error {
	if r.failure != nil || r.endWritten {
		return r.failure
	}
	if message != "" {
		r.appendEvent(Event{Kind: kind, Code: code, Message: r.j.shortMessage(message)})
	}
	w := r.takeSegment(false)
	w.Release = true
	err := r.awaitWrite(w)
	r.endWritten = err == nil
	return err
}

// maxMessage bounds the message of a failure, in characters.
const maxMessage = 300

// shortMessage returns a message as it is stored.
func (j *Journal) shortMessage(message string) string {
	if j.o.Redact != nil {
		message = j.o.Redact(message)
	}
	return fault.ClipRunes(message, maxMessage)
}

// Answered records what the run's answer cost. A run that EndUnfinished has not ended ends with status OK. Results, which only a resume
// would need, are then dropped, unless the caller may ask for the answer again (Start.Key) or Options.Values is set. If a
// write has failed before, nothing is recorded and the run does not end, but its lease is released. No other method may be called
// afterwards.
func (r *Run) Answered(tokens, stored int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failure != nil && !r.endWritten {
		if r.hasRow { // a resume need not wait for the lease to end
			r.j.retryLater(&queuedWrite{Write: Write{ID: r.row.ID, Lease: r.row.Lease, Release: true}})
		}
		return
	}
	w := &queuedWrite{Write: Write{ID: r.row.ID, Lease: r.row.Lease, Late: true}}
	if !r.endWritten {
		drop := r.row.Key == "" && !r.StoresValues()
		for i := range r.events {
			if drop {
				r.events[i].dropResult()
			}
		}
		r.row.Status = OK
		wrote := r.hasRow
		w = r.takeSegment(true)
		w.Release, w.DropResults, w.retryable = true, drop && wrote, wrote
	}
	w.Tokens, w.Stored = tokens, stored
	segment, took := w.prepare, time.Since(r.resumedAt)
	w.prepare = func(w *Write) {
		if segment != nil {
			segment(w)
		}
		w.Days = r.daySums(tokens, stored, took)
	}
	if !r.endWritten && (r.row.Key != "" || r.row.Lease > 1) { // the caller may ask for it at once
		_ = r.awaitWrite(w)
		return
	}
	r.j.enqueueOrReport(w)
}

// failureChange returns by how much a resume changes the number of failed runs: a run counts once, by its last end. One that waits has not
// failed.
func (r *Run) failureChange() int64 {
	switch before, now := r.past.Row.Status, r.row.Status; {
	case before == Failed && (now == OK || now == Waiting):
		return -1
	case (before == Waiting || before == MayContinue) && now == Failed:
		return 1
	}
	return 0
}

// daySums returns the sums since the run began or was resumed.
func (r *Run) daySums(tokens, stored int, took time.Duration) []Day {
	r.mu.Lock()
	defer r.mu.Unlock()
	day := DayOf(r.resumedAt)
	runDay := Day{Tokens: int64(tokens), Stored: int64(stored)}
	if r.row.Lease == 1 { // a resume or an undo is not another run
		runDay.Count, runDay.Times = 1, Times{}
		runDay.Times.Count(took)
		if r.row.Status != OK && r.row.Status != Waiting {
			runDay.Failures = 1
		}
	} else if r.past != nil {
		runDay.Failures = r.failureChange()
	}
	list := make([]Day, 0, len(r.functions)+1)
	for _, d := range r.functions {
		runDay.Calls += d.Count
		list = append(list, *d)
	}
	list = append(list, runDay)
	chain := r.j.names.nameFor(day, r.row.Caller, r.row.Chain)
	for i := range list {
		list[i].Day, list[i].Caller, list[i].Chain = day, r.row.Caller, chain
	}
	clear(r.functions)
	return list
}
