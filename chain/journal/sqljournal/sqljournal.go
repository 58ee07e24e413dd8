// Package sqljournal stores runs in a database: a SQLite file, which any number of processes on one machine may share, or PostgreSQL, for
// many machines.
//
// The database is opened at first use, and again after a failure. If it is locked, full, damaged, unreachable, read-only or written by a
// newer version of onecall, errors (fault.Unavailable) say so, with the remedy. A method that returns such an error has done nothing,
// unless only the confirmation of a commit was lost. The driver works again as soon as the database does.
package sqljournal

import (
	"crypto/rand"
	"encoding/hex"
	"sync"
	"time"

	"github.com/onecall-mcp/onecall/fault"
)

// Options configures a Driver; nil means the defaults.
type Options struct {
	// Timeout bounds a write or the search for a run; 0: 10 s. A negative one is refused with bad_request. Lists may take three times as
	// long.
	Timeout time.Duration
	// Elsewhere says how a person has the file of a SQLite journal at another place, for messages; "": name another file.
	Elsewhere string
}

// Driver is a journal.Driver.
type Driver struct {
	engine  engine
	holder  string // the unique name under which this driver has leases
	timeout time.Duration
	opening chan struct{} // has an element while the database is being opened

	commitsLate bool // a commit may still be carried out after it seemed to fail

	mu       sync.Mutex
	db       *database // nil: not open
	failure  error     // the last failure, which callers get until reopenAfter has passed; nil: none
	failedAt time.Time
	closed   bool
	rows     map[string]*rowIdentity // the stored rows of runs whose leases this driver has
}

func newDriver(e engine, o *Options) (*Driver, error) {
	var id [8]byte
	_, _ = rand.Read(id[:]) // never fails
	d := &Driver{engine: e, holder: hex.EncodeToString(id[:]), opening: make(chan struct{}, 1), rows: map[string]*rowIdentity{},
		timeout: 10 * time.Second}
	if o != nil && o.Timeout != 0 {
		d.timeout = o.Timeout
	}
	if d.timeout < 0 {
		return nil, fault.New(fault.BadRequest, "The timeout of the journal's database must be positive, not %v.", d.timeout)
	}
	return d, nil
}

// Close implements journal.Driver.
func (d *Driver) Close() error {
	d.opening <- struct{}{} // no other goroutine opens it from now on
	defer func() { <-d.opening }()
	d.mu.Lock()
	db, closed := d.db, d.closed
	d.db, d.closed = nil, true
	d.mu.Unlock()
	if closed {
		return nil
	}
	d.engine.close(db, d.holder)
	return nil
}
