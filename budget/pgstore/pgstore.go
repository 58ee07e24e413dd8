// Package pgstore keeps results in a PostgreSQL database, where every replica of onecall finds the results of the others.
//
// A store connects when it is used, and creates its tables then. While the server is unreachable, operations fail; once it is reachable
// again, they use it at once. The lifetime of a result is measured by the server's clock alone. Clocks of replicas may differ from it and
// may jump, so times are converted to and from the clock of the caller.
package pgstore

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/semaphore"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/budget/internal/compressed"
	"github.com/onecall-mcp/onecall/budget/internal/recent"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/sqldb"
)

const (
	defaultTimeout = 5 * time.Second
	longFactor     = 6   // how long an operation on a large value may take, in multiples of Timeout
	overhead       = 512 // bytes that a result counts in addition: its rows and their index entries
	maxOwner       = 256 // bytes

	// maxConnections is small, since the journal has connections of its own: a large result must not delay it.
	maxConnections = 4
)

// Options are the settings of a Store. A zero field other than URL means the default.
type Options struct {
	// URL is the database: a URL or keyword list of libpq. Errors never show the password.
	URL string

	// MaxBytes limits all results in the database together, as stored (compressed, plus 512 bytes for each); default 1 GiB, -1 for no
	// limit. A single result above it is limit_exceeded.
	MaxBytes int64

	// Timeout limits an operation, including the wait for a connection; default 5 s, at least 1 ms. One on a value above 64 KiB may take
	// six times as long. Clocks that differ by less than Timeout count as equal.
	Timeout time.Duration

	Now func() time.Time // the clock; default time.Now
}

// Store is a budget.Driver. Above MaxBytes it removes results of the owner that uses most, those that expire first, which are the least
// recently used. It holds large values in memory for a minute after they were read, up to 64 MiB, so that paging through a value does not
// transfer it for each page. Each read still checks that the value exists.
type Store struct {
	o        Options
	maxBytes atomic.Int64 // current limit of all results together
	config   *pgx.ConnConfig
	pool     *sql.DB
	ready    atomic.Bool  // the tables exist
	swept    atomic.Int64 // when this store last removed expired results, in Unix nanoseconds
	codec    compressed.Codec

	transfers *semaphore.Weighted   // bytes of large values in transfer
	recent    *recent.Values[int64] // large values that were read, by their version

	closing context.Context // ends when the store is closed
	close   context.CancelFunc
}

// New returns a store without connecting. Options that are out of range and invalid addresses are bad_request.
func New(o *Options) (*Store, error) {
	s := &Store{transfers: semaphore.NewWeighted(maxTransferBytes),
		recent: recent.New(recent.DefaultMaxBytes, func(a, b int64) bool { return a == b })}
	if o != nil {
		s.o = *o
	}
	if s.o.Timeout == 0 {
		s.o.Timeout = defaultTimeout
	}
	if s.o.Now == nil {
		s.o.Now = time.Now
	}
	if s.o.Timeout < time.Millisecond {
		return nil, fault.New(fault.BadRequest, "The timeout of the result store must be at least 1ms, not %v.", s.o.Timeout)
	}
	if err := s.SetMaxBytes(s.o.MaxBytes); err != nil {
		return nil, err
	}
	var err error
	if s.config, err = sqldb.ParsePostgres(s.o.URL, "The result store's"); err != nil {
		return nil, err
	}
	// Only a new result must survive a crash of the server. Put asks for that.
	s.config.RuntimeParams["synchronous_commit"] = "off"
	s.pool = sqldb.OpenPool(s.config, maxConnections)
	s.closing, s.close = context.WithCancel(context.Background())
	return s, nil
}

// SetMaxBytes implements budget.Driver. Results above the new limit are removed by the next Put.
func (s *Store) SetMaxBytes(maxBytes int64) error {
	limit, err := budget.ResolveMaxBytes(maxBytes)
	if err == nil {
		s.maxBytes.Store(limit)
	}
	return err
}

// idOf returns the id of a key in the database.
func idOf(key string) []byte {
	sum := sha256.Sum256([]byte(key))
	return sum[:]
}

// Touch implements budget.Driver.
func (s *Store) Touch(ctx context.Context, key string, expires time.Time) error {
	return s.do(ctx, s.o.Timeout, func(ctx context.Context, conn *pgx.Conn) error {
		done, err := conn.Exec(ctx, extend, s.o.Now(), s.o.Timeout.Seconds(), idOf(key), expires)
		if err == nil && done.RowsAffected() == 0 {
			err = budget.ErrNotFound
		}
		return err
	})
}

// Delete implements budget.Driver.
func (s *Store) Delete(ctx context.Context, key string) error {
	return s.do(ctx, s.o.Timeout, func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, forgetKey, idOf(key))
		return err
	})
}

// Close implements budget.Driver. It ends operations in progress with ErrClosed. The results stay in the database until they expire.
func (s *Store) Close() error {
	s.close()
	s.recent.Close()
	return s.pool.Close()
}

// maxAttempts bounds the attempts at an operation: all connections may have been closed by the server.
const maxAttempts = maxConnections + 1

// do runs an operation on a connection, within bound. The operation may run again if it conflicted with others or lost its connection.
func (s *Store) do(ctx context.Context, bound time.Duration, operation func(context.Context, *pgx.Conn) error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case s.closing.Err() != nil:
		return budget.ErrClosed
	}
	limited, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	defer context.AfterFunc(s.closing, cancel)()
	again, err := s.attempt(limited, operation)
	for n := 1; again && n < maxAttempts && limited.Err() == nil; n++ {
		again, err = s.attempt(limited, operation)
	}
	return s.failure(ctx, err)
}

// attempt runs an operation, and reports whether to run it again.
func (s *Store) attempt(ctx context.Context, operation func(context.Context, *pgx.Conn) error) (again bool, err error) {
	if !s.ready.Load() {
		if err := schema.Migrate(ctx, s.pool); err != nil {
			return sqldb.IsConflict(err), err
		}
		s.ready.Store(true)
	}
	lost := false
	err = sqldb.OnConnection(ctx, s.pool, func(conn *pgx.Conn) error {
		err := operation(ctx, conn)
		lost = err != nil && conn.IsClosed()
		return err
	})
	if sqldb.LacksTables(err) {
		s.ready.Store(false)
	}
	return lost || sqldb.IsConflict(err) || sqldb.LacksTables(err), err
}

// failure converts the error of an operation for its caller. Only the cause, for operators, says which database it is and what is wrong
// with it.
func (s *Store) failure(ctx context.Context, err error) error {
	_, coded := fault.As(err)
	switch {
	case err == nil, coded, errors.Is(err, budget.ErrNotFound), errors.Is(err, errReplaced),
		errors.Is(err, compressed.ErrDamaged):
		return err
	case s.closing.Err() != nil:
		return budget.ErrClosed
	case ctx.Err() != nil:
		return ctx.Err()
	}
	if end, ok := ctx.Deadline(); ok && !time.Now().Before(end) { // the connection may notice the deadline first
		return context.DeadlineExceeded
	}
	clause, _ := sqldb.Explain(s.config, err)
	f := fault.New(fault.Unavailable, "The result store cannot be reached now: try again in a few seconds.")
	f.Err = errors.New(sqldb.Subject(s.config, "the result store's") + " " + clause)
	return f
}
