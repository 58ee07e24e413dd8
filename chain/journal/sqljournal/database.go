package sqljournal

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"time"

	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/sqldb"
)

// reopenAfter is the delay before a failed database is opened again.
const reopenAfter = time.Second

// database is an open database.
type database struct {
	*sqldb.Schema
	read  *sql.DB
	write *sql.DB // its transactions may write from the beginning
	// beginTx begins a transaction for a batch of writes.
	beginTx func(ctx context.Context) (transaction, error)
	// alive reports whether a holder of leases is alive.
	alive func(ctx context.Context, from queries, holder string) (bool, error)
	// version selects the text of Driver.Version, which may be asked for at this interval.
	version      string
	versionEvery time.Duration
	// cleanUp frees space and removes dead holders.
	cleanUp func(ctx context.Context) error
	// verify fails if a part of the database is damaged; nil: the database checks itself.
	verify func(ctx context.Context) error
	// isMoved reports whether the file is no longer the one that was opened; nil: it cannot move.
	isMoved func() bool
	close   func()

	mu       sync.Mutex
	prepared map[string]*sql.Stmt // the statements of queryPrepared, which end with read
}

// transaction is a transaction of Driver.Write.
type transaction interface {
	// exec executes statements in as few round trips as possible, and returns how many rows each one changed. last commits.
	exec(ctx context.Context, list []statement, last bool) (changed []int64, err error)
	// query returns the only row of a statement: numbers as int64, bytes and texts of the column's type.
	query(ctx context.Context, s statement) (row []any, err error)
	// end rolls back what was not committed, and releases the transaction.
	end()
}

// statement is SQL in the dialect of this package, with its arguments.
type statement struct {
	sql  string
	args []any
}

// engine is the part of a Driver that differs between databases.
type engine interface {
	open(ctx context.Context, holder string) (*database, error)
	// explain returns a message that says what failed and what helps, and how to continue with the database.
	explain(err error) (message string, effect sqldb.Effect)
	// isRetryable reports whether a transaction failed only because of another one, and did nothing.
	isRetryable(err error) bool
	// close closes the database, unless db is nil, and releases the leases of a holder.
	close(db *database, holder string)
}

var errClosed = errors.New("the journal is closed")

// withDatabase opens the database if needed and calls f with it, all within limit. It calls f again if the transaction conflicted with
// others, up to maxAttempts times in all.
func (d *Driver) withDatabase(ctx context.Context, limit time.Duration, f func(ctx context.Context, db *database) error) error {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	db, err := d.openDatabase(limited)
	if _, isFault := fault.As(err); err != nil && !isFault && ctx.Err() == nil && limited.Err() != nil {
		return d.fail(nil, err) // another caller is still opening it
	}
	if err != nil {
		return err
	}
	for range maxAttempts {
		if err = f(limited, db); err == nil || !d.engine.isRetryable(err) {
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

// maxAttempts bounds the attempts at a transaction that conflicts with others.
const maxAttempts = 5

// openDatabase returns the database. One caller opens it while others wait.
func (d *Driver) openDatabase(ctx context.Context) (*database, error) {
	select {
	case d.opening <- struct{}{}:
		defer func() { <-d.opening }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	d.mu.Lock()
	db, failure, failedAt, closed := d.db, d.failure, d.failedAt, d.closed
	d.mu.Unlock()
	switch {
	case closed:
		return nil, errClosed
	case failure != nil && time.Since(failedAt) < reopenAfter:
		return nil, failure
	case db != nil && (db.isMoved == nil || !db.isMoved()):
		return db, nil
	case db != nil:
		db.close()
		d.setDatabase(nil)
	}
	db, err := d.engine.open(ctx, d.holder)
	switch {
	case errors.Is(err, context.Canceled):
		return nil, err
	case err != nil:
		return nil, d.fail(nil, err)
	}
	d.setDatabase(db)
	return db, nil
}

func (d *Driver) setDatabase(db *database) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.db, d.failure = db, nil
}

// fail records a failure and returns a fault with the remedy. db is nil if the database could not be opened.
func (d *Driver) fail(db *database, err error) error {
	message, effect := d.engine.explain(err)
	failure := &fault.Error{Code: fault.Unavailable, Message: message, Err: err}
	d.mu.Lock()
	defer d.mu.Unlock()
	if effect == sqldb.RetryNow && db != nil || d.db != db { // db can be used at once, or another caller has replaced it already
		return failure
	}
	d.failure, d.failedAt = failure, time.Now()
	if effect == sqldb.MustReopen && db != nil {
		d.db = nil
		go db.close() // others may be using it
	}
	return failure
}
