// Package sqljournal keeps what runs do in a database: a SQLite file, which any number of processes of one machine may share, or
// PostgreSQL, for many machines.
//
// The database is opened at the first use, and again after a failure. A database that is locked, full, damaged, away, read-only
// or of a newer version of onecall gives errors (fault.Unavailable) that say so, and what helps; then nothing of the work was
// done, and it works again as soon as the database does.
package sqljournal

import (
	"crypto/rand"
	"encoding/hex"
	"sync"
	"time"

	"github.com/onecall-mcp/onecall/fault"
)

// Options are the settings of a Driver; nil or a zero field stands for the default.
type Options struct {
	// Timeout is how long a write, or the search for a run, may take; default 10 s. Lists may take three times as long.
	Timeout time.Duration
}

// Driver is a journal.Driver.
type Driver struct {
	engine  engine
	holder  string // whose leases are: no other driver has this name
	timeout time.Duration
	opening chan struct{} // holds one while the database is opened

	mu       sync.Mutex
	db       *database // nil: it is not open
	failure  error     // of the last try to open it, or why it was closed then
	failedAt time.Time
	closed   bool
	held     map[string]*identity // what the rows of runs say whose leases this driver has
}

func newDriver(e engine, o *Options) (*Driver, error) {
	var id [8]byte
	_, _ = rand.Read(id[:]) // it never fails
	d := &Driver{engine: e, holder: hex.EncodeToString(id[:]), opening: make(chan struct{}, 1), held: map[string]*identity{},
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
	d.opening <- struct{}{} // nobody opens it meanwhile, or any more
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
