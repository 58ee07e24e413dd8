package sqljournal

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
)

// reopenAfter is how long a database that failed is left alone.
const reopenAfter = time.Second

// database is an open database.
type database struct {
	*dialect
	read  *sql.DB
	write *sql.DB // in which each transaction may write from its beginning
	// begin begins the transaction of a batch of writes.
	begin func(ctx context.Context) (transaction, error)
	// alive reports whether a holder lives.
	alive func(ctx context.Context, from queries, holder string) (bool, error)
	// tidy gives back room, and forgets holders that have gone.
	tidy func(ctx context.Context) error
	// moved tells that the database is not where it was opened any more.
	moved func() bool
	close func()
}

// transaction is one of the transactions of Driver.Write.
type transaction interface {
	// exec carries out statements, in as few round trips as there can be, and gives how many rows each changed. last commits.
	exec(ctx context.Context, list []statement, last bool) (changed []int64, err error)
	// query gives the only column of the only row of a statement.
	query(ctx context.Context, s statement) (value []byte, err error)
	// end gives back what the transaction holds, and takes back what was not committed.
	end()
}

// statement is SQL of this package, and its arguments.
type statement struct {
	sql  string
	args []any
}

// engine is what differs between databases.
type engine interface {
	open(ctx context.Context, holder string) (*database, error)
	// explain says what failed and what helps, and what is to be done with the database.
	explain(err error) (message string, v verdict)
	// again tells that a transaction failed only because of another one, and nothing of it was done.
	again(err error) bool
	// close closes a database, if it is open (else nil), and gives back the leases of a holder.
	close(db *database, holder string)
}

// verdict is what a failure says of a database.
type verdict int

const (
	usable verdict = iota // the next try may work
	away                  // it is left alone for a while
	broken                // and has to be opened again then
)

var errClosed = errors.New("the journal is closed")

// do has f work on the database, which it opens if need be, for no longer than limit.
func (d *Driver) do(ctx context.Context, limit time.Duration, f func(ctx context.Context, db *database) error) error {
	own, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	db, err := d.opened(own)
	if _, told := fault.As(err); err != nil && !told && ctx.Err() == nil && own.Err() != nil {
		return d.fail(nil, err) // who opens it takes longer
	}
	if err != nil {
		return err
	}
	for range maxAgain {
		if err = f(own, db); err == nil || !d.engine.again(err) {
			break
		}
	}
	switch {
	case err == nil, errors.Is(err, journal.ErrNotFound), errors.Is(err, journal.ErrBusy):
		return err
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return d.fail(db, err)
}

// maxAgain is how often a transaction is tried that others keep from being done.
const maxAgain = 5

// opened gives the database, which one caller opens while others wait.
func (d *Driver) opened(ctx context.Context) (*database, error) {
	select {
	case d.opening <- struct{}{}:
		defer func() { <-d.opening }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	d.mu.Lock()
	db, failed, at, closed := d.db, d.failure, d.failedAt, d.closed
	d.mu.Unlock()
	switch {
	case closed:
		return nil, errClosed
	case failed != nil && time.Since(at) < reopenAfter:
		return nil, failed
	case db != nil && (db.moved == nil || !db.moved()):
		return db, nil
	case db != nil:
		db.close()
		d.set(nil)
	}
	db, err := d.engine.open(ctx, d.holder)
	switch {
	case errors.Is(err, context.Canceled):
		return nil, err
	case err != nil:
		return nil, d.fail(nil, err)
	}
	d.set(db)
	return db, nil
}

func (d *Driver) set(db *database) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.db, d.failure = db, nil
}

// fail takes note of a failure, and tells what helps; db is nil where it could not be opened.
func (d *Driver) fail(db *database, err error) error {
	message, v := d.engine.explain(err)
	told := &fault.Error{Code: fault.Unavailable, Message: message, Err: err}
	d.mu.Lock()
	defer d.mu.Unlock()
	if v == usable && db != nil || d.db != db {
		return told
	}
	d.failure, d.failedAt = told, time.Now()
	if v == broken && db != nil {
		d.db = nil
		go db.close() // others may be at work with it
	}
	return told
}
