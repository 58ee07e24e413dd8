package sqljournal

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/onecall-mcp/onecall/internal/sqldb"
)

// OpenPostgres returns a driver for a PostgreSQL database. The tables are created at first use, in the first schema of the search path.
// dsn is a URL or keyword list of libpq. OpenPostgres fails if dsn is "" or cannot be parsed. No error contains the password.
func OpenPostgres(dsn string, o *Options) (*Driver, error) {
	config, err := sqldb.ParsePostgres(dsn, "The journal's")
	if err != nil {
		return nil, err
	}
	config.RuntimeParams["synchronous_commit"] = "on"
	d, err := newDriver(&postgresEngine{config: config}, o)
	if err == nil {
		d.commitsLate = true
	}
	return d, err
}

// A holder is dead if it was not renewed for leaseTime.
const (
	leaseTime  = 4 * time.Second
	renewEvery = time.Second
)

// maxConnections bounds the connections of a driver, beside the one that renews its leases.
const maxConnections = 10

type postgresEngine struct{ config *pgx.ConnConfig }

func (e *postgresEngine) open(ctx context.Context, holder string) (*database, error) {
	pool := sqldb.OpenPool(e.config, maxConnections)
	db := &database{Schema: inPostgres, read: pool, write: pool, alive: postgresAlive, version: newestRows, versionEvery: time.Second}
	if err := db.Migrate(ctx, pool); err != nil {
		pool.Close()
		return nil, err
	}
	own := sqldb.OpenPool(e.config, 1) // slow queries may use all connections of pool for longer than leaseTime
	if err := renewHolder(ctx, own, holder); err != nil {
		own.Close()
		pool.Close()
		return nil, err
	}
	r := &renewal{own: own, pool: pool, holder: holder, stop: make(chan struct{}), done: make(chan struct{})}
	go r.run()
	db.beginTx = func(ctx context.Context) (transaction, error) {
		conn, err := pool.Conn(ctx)
		return &postgresTransaction{conn: conn}, err
	}
	db.cleanUp = func(ctx context.Context) error {
		_, err := pool.ExecContext(ctx, `DELETE FROM onecall_holders WHERE live_until < clock_timestamp() - interval '1 hour'`)
		return err
	}
	db.close = r.end
	return db, nil
}

// renewal renews a holder until it is ended.
type renewal struct {
	own        *sql.DB // of the renewal alone
	pool       *sql.DB // closed at the end
	holder     string
	once       sync.Once
	stop, done chan struct{}
}

func renewHolder(ctx context.Context, pool queries, holder string) error {
	var n int
	return pool.QueryRowContext(ctx, `INSERT INTO onecall_holders (id, live_until) VALUES ($1, clock_timestamp() + $2 * interval '1 second')
	ON CONFLICT (id) DO UPDATE SET live_until = excluded.live_until RETURNING 1`, holder, leaseTime.Seconds()).Scan(&n)
}

func (r *renewal) run() {
	defer close(r.done)
	tick := time.NewTicker(renewEvery)
	defer tick.Stop()
	for {
		select {
		case <-r.stop:
			return
		case <-tick.C:
			ctx, cancel := context.WithTimeout(context.Background(), leaseTime)
			_ = renewHolder(ctx, r.own, r.holder) // retried at the next tick
			cancel()
		}
	}
}

func (r *renewal) end() {
	r.once.Do(func() {
		close(r.stop)
		<-r.done
		r.own.Close()
		r.pool.Close()
	})
}

// close releases all leases at once. If the database cannot be reached, they end after leaseTime.
func (e *postgresEngine) close(db *database, holder string) {
	if db == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), renewEvery)
	defer cancel()
	_, _ = db.write.ExecContext(ctx, `UPDATE onecall_holders SET live_until = clock_timestamp() WHERE id = $1`, holder)
	db.close()
}

func postgresAlive(ctx context.Context, from queries, holder string) (bool, error) {
	var n int
	err := from.QueryRowContext(ctx, `SELECT count(*) FROM onecall_holders WHERE id = $1 AND live_until > clock_timestamp()`,
		holder).Scan(&n)
	return n > 0, err
}

// postgresTransaction sends as much as possible in one round trip.
type postgresTransaction struct {
	conn  *sql.Conn
	begun bool // BEGIN was sent
	ended bool // the transaction was committed
}

func (t *postgresTransaction) do(f func(*pgx.Conn) error) error {
	return t.conn.Raw(func(on any) error { return f(on.(*stdlib.Conn).Conn()) })
}

func (t *postgresTransaction) exec(ctx context.Context, list []statement, last bool) (changed []int64, err error) {
	err = t.do(func(conn *pgx.Conn) error {
		b := &pgx.Batch{}
		if !t.begun {
			b.Queue("BEGIN")
		}
		changed = make([]int64, len(list))
		for i, s := range list {
			b.Queue(inPostgres.SQL(s.sql), s.args...).Exec(func(tag pgconn.CommandTag) error {
				changed[i] = tag.RowsAffected()
				return nil
			})
		}
		if last {
			b.Queue("COMMIT")
		}
		t.begun = true
		return conn.SendBatch(ctx, b).Close()
	})
	t.ended = err == nil && last
	return changed, err
}

func (t *postgresTransaction) query(ctx context.Context, s statement) (row []any, err error) {
	err = t.do(func(conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, inPostgres.SQL(s.sql), s.args...)
		if err != nil {
			return err
		}
		row, err = pgx.CollectExactlyOneRow(rows, func(r pgx.CollectableRow) ([]any, error) { return r.Values() })
		return err
	})
	return row, err
}

func (t *postgresTransaction) end() {
	if t.begun && !t.ended {
		ctx, cancel := context.WithTimeout(context.Background(), rollbackTime)
		defer cancel()
		if err := t.do(func(conn *pgx.Conn) error { _, err := conn.Exec(ctx, "ROLLBACK"); return err }); err != nil {
			_ = t.conn.Raw(func(any) error { return driver.ErrBadConn }) // the connection must not be reused
		}
	}
	t.conn.Close()
}

func (e *postgresEngine) isRetryable(err error) bool { return sqldb.IsConflict(err) }

func (e *postgresEngine) explain(err error) (message string, effect sqldb.Effect) {
	clause, effect := sqldb.Explain(e.config, err)
	if errors.Is(err, errDamaged) {
		clause, effect = "holds data that onecall did not write ("+err.Error()+"): find out what else writes there.", sqldb.RetryNow
	}
	return sqldb.Subject(e.config, "The journal's") + " " + clause, effect
}
