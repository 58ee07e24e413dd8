package sqljournal

import (
	"context"
	"database/sql"
	"errors"

	"github.com/onecall-mcp/onecall/chain/journal"
)

// Take implements journal.Driver. One of two who try at once waits for the other, and then sees who has the lease.
func (d *Driver) Take(ctx context.Context, id string, caller *string) (rec *journal.Record, err error) {
	id = text(id)
	err = d.do(ctx, d.timeout, func(ctx context.Context, db *database) error {
		rec, err = db.take(ctx, id, caller, d.holder)
		return err
	})
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	d.held[id] = identityOf(&rec.Row)
	d.mu.Unlock()
	return rec, nil
}

func (db *database) take(ctx context.Context, id string, caller *string, holder string) (*journal.Record, error) {
	tx, err := db.write.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer tx.Rollback() //nolint:errcheck // it is committed, or the error is known
	var before, owner string
	err = tx.QueryRowContext(ctx, db.sql(`SELECT holder, caller FROM onecall_runs WHERE id = $1 FOR UPDATE`), id).Scan(&before, &owner)
	if errors.Is(err, sql.ErrNoRows) || err == nil && caller != nil && text(*caller) != owner {
		return nil, journal.ErrNotFound
	} else if err != nil {
		return nil, err
	}
	if busy, err := db.holds(ctx, tx, before); err != nil {
		return nil, err
	} else if busy {
		return nil, journal.ErrBusy
	}
	if _, err := tx.ExecContext(ctx, `UPDATE onecall_runs SET lease = lease + 1, holder = $2 WHERE id = $1`, id, holder); err != nil {
		return nil, err
	}
	rec, _, err := db.load(ctx, tx, id)
	if err != nil {
		return nil, err
	}
	return rec, tx.Commit()
}

// holds reports whether somebody who lives has a lease.
func (db *database) holds(ctx context.Context, from queries, holder string) (bool, error) {
	if holder == "" {
		return false, nil
	}
	return db.alive(ctx, from, holder)
}
