package sqljournal

import (
	"context"
	"database/sql"
	"errors"

	"github.com/onecall-mcp/onecall/chain/journal"
)

// Acquire implements journal.Driver. Of two concurrent calls, one waits for the other and then sees the lease.
func (d *Driver) Acquire(ctx context.Context, id string, caller *string) (rec *journal.Record, err error) {
	id = validText(id)
	err = d.withDatabase(ctx, d.timeout, func(ctx context.Context, db *database) error {
		rec, err = db.acquire(ctx, id, caller, d.holder)
		return err
	})
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	d.rows[id] = identityOf(&rec.Row)
	d.mu.Unlock()
	return rec, nil
}

func (db *database) acquire(ctx context.Context, id string, caller *string, holder string) (*journal.Record, error) {
	tx, err := db.write.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer tx.Rollback() //nolint:errcheck // it is committed, or the error is known
	var currentHolder, runCaller string
	err = tx.QueryRowContext(ctx, db.SQL(`SELECT holder, caller FROM onecall_runs WHERE id = $1 FOR UPDATE`), id).
		Scan(&currentHolder, &runCaller)
	if errors.Is(err, sql.ErrNoRows) || err == nil && caller != nil && validText(*caller) != runCaller {
		return nil, journal.ErrNotFound
	} else if err != nil {
		return nil, err
	}
	if busy, err := db.isLive(ctx, tx, currentHolder); err != nil {
		return nil, err
	} else if busy {
		return nil, journal.ErrBusy
	}
	if _, err := tx.ExecContext(ctx, `UPDATE onecall_runs SET lease = lease + 1, holder = $2 WHERE id = $1`, id, holder); err != nil {
		return nil, err
	}
	rec, _, err := db.load(ctx, tx, id, 0, 0)
	if err != nil {
		return nil, err
	}
	return rec, tx.Commit()
}

// isLive reports whether the holder of a lease is alive; holder "": nobody has the lease.
func (db *database) isLive(ctx context.Context, from queries, holder string) (bool, error) {
	if holder == "" {
		return false, nil
	}
	return db.alive(ctx, from, holder)
}
