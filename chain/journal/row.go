package journal

import (
	"context"
	"time"

	"github.com/onecall-mcp/onecall/fault"
)

// Row describes a run without its events.
type Row struct {
	ID        string     `json:"id"`
	Caller    string     `json:"caller"`             // only the caller and admins may see the run
	Key       string     `json:"key,omitzero"`       // the key with its scope, see CallersKey
	Parent    string     `json:"parent,omitzero"`    // the run that this one is a part of
	Batch     bool       `json:"batch,omitzero"`     // it has parts and makes no calls, see Journal.BeginBatch
	Chain     string     `json:"chain,omitzero"`     // the name of the chain
	Hash      string     `json:"hash,omitzero"`      // the hash of its plan
	Functions []string   `json:"functions,omitzero"` // the functions that its chain names, at most 100
	Status    Status     `json:"status"`
	Code      fault.Code `json:"code,omitzero"`

	Began   time.Time `json:"began"`
	Last    time.Time `json:"last"`    // its last activity
	Expires time.Time `json:"expires"` // when it may be removed

	Steps  int           `json:"steps"`           // the number of steps of the outermost chain
	Calls  int           `json:"calls"`           // calls that were made
	Reused int           `json:"reused,omitzero"` // calls whose results came from the journal
	Writes int           `json:"writes,omitzero"` // how many of Calls write, undo no other, and were sent or may have been
	Undos  int           `json:"undos,omitzero"`  // the same of those that undo another
	Left   int           `json:"left,omitzero"`   // the writes that its undo left, perhaps or certainly done
	Took   time.Duration `json:"took"`            // the time that it took, including resumes
	Tokens int           `json:"tokens"`          // the tokens of its answers
	Stored int           `json:"kept"`            // the estimated tokens of results that are in no answer

	Lease int64 `json:"lease"` // how often the lease was taken, from 1

	// What the events say, so that they need not be loaded to know it. If HandoverLease is negative, an older version wrote the row, which
	// then has none of this; Past.Row and Journal.ReadRow have it in any case.
	HandoverLease int64  `json:"-"` // the lease under which it was last handed to workers; 0: it never was
	LastLease     int64  `json:"-"` // the lease of its last event. Lease may be later, if a process took the lease and recorded nothing
	Scope         string `json:"-"` // the scope in which it began; see Start
}

// mayBeAtWorkers implements Filter.AtWorkers.
func (r *Row) mayBeAtWorkers() bool {
	return r.HandoverLease != 0 && r.Code == "" && (r.Status == Running || r.Status == Interrupted || r.Status == Waiting)
}

// ReadRow returns the row of a run of a caller in a scope. It loads the events only of a run that an older version wrote, whose row lacks
// what they say. It fails with ErrNotFound, and for such a run as Read does.
func (j *Journal) ReadRow(ctx context.Context, id, caller, scope string) (*Row, error) {
	row, err := j.driver.LoadRow(ctx, id)
	if err != nil {
		return nil, err
	}
	if row.HandoverLease < 0 {
		past, err := j.Read(ctx, id, &caller)
		if err != nil {
			return nil, err
		}
		row = &past.Row
	}
	if row.Caller != caller || row.Scope != scope || row.Expires.Before(time.Now()) {
		return nil, ErrNotFound
	}
	return row, nil
}
