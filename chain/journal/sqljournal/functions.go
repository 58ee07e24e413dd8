package sqljournal

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

// The rows of onecall_functions say of each run which functions its chain names, who began it (caller), and whether it is not ok (failed),
// so that an index finds the runs of a function, of a caller that uses it, and those of them that are not ok. The rows of an older version
// lack the last two until fill has come to them: onecall_filling has the position up to which it has, and no row once it is done.

// Parts of statements. namedBy lacks the condition for onecall_runs r, and the closing parenthesis.
const (
	namedBy = ` WHERE (fn, began, run) IN
	(SELECT f.value, r.began, r.n FROM onecall_runs r, EACH(r.functions) f `
	forgetFunctions = `DELETE FROM onecall_functions` + namedBy
	addFunctions    = `INSERT INTO onecall_functions (fn, began, run, caller, failed)
	SELECT f.value, r.began, r.n, r.caller, CASE WHEN r.status = 'ok' THEN 0 ELSE 1 END FROM onecall_runs r, EACH(r.functions) f
	WHERE r.id = $1 AND r.lease = $2 ON CONFLICT DO NOTHING`
	// markFunctions also sets the caller: fill, which may have read the run's row before, then leaves the rows alone.
	markFunctions = `UPDATE onecall_functions SET failed = $3, caller = $4` + namedBy + `WHERE r.id = $1 AND r.lease = $2)`
	nextUnfilled  = `SELECT fn, began, run FROM onecall_functions WHERE (fn, began, run) > ($1, $2, $3) ORDER BY fn, began, run
	LIMIT 1 OFFSET $4`
	fillFunctions = `UPDATE onecall_functions SET
	caller = COALESCE((SELECT r.caller FROM onecall_runs r WHERE r.n = onecall_functions.run), ''),
	failed = COALESCE((SELECT CASE WHEN r.status = 'ok' THEN 0 ELSE 1 END FROM onecall_runs r WHERE r.n = onecall_functions.run), 0)
	WHERE caller IS NULL AND (fn, began, run) > ($1, $2, $3)`
)

// Bounds of fill: rows of a transaction, since others wait for it, and transactions and time of an Expire, since closing waits for that.
const (
	maxFilled   = 200
	maxFills    = 100
	maxFillTime = 2 * time.Second
)

// isFilled reports whether all rows of onecall_functions say what their runs do.
func (db *database) isFilled(ctx context.Context) (bool, error) {
	if db.filled.Load() {
		return true, nil
	}
	var filling bool
	err := db.read.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM onecall_filling)`).Scan(&filling)
	db.filled.Store(err == nil && !filling)
	return err == nil && !filling, err
}

// fill fills in the next rows of an older version. It reports whether there may be more.
func (db *database) fill(ctx context.Context) (more bool, err error) {
	if filled, err := db.isFilled(ctx); filled || err != nil {
		return false, err
	}
	tx, err := db.write.BeginTx(ctx, nil)
	if err != nil {
		return false, err
	}
	defer tx.Rollback() //nolint:errcheck // it is committed, or the error is known
	type position struct {
		fn         string
		began, run int64
	}
	var from, to position
	err = tx.QueryRowContext(ctx, db.SQL(`SELECT fn, began, run FROM onecall_filling FOR UPDATE`)).Scan(&from.fn, &from.began, &from.run)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil // another process has come to the end
	} else if err != nil {
		return false, err
	}
	query, args := fillFunctions, []any{from.fn, from.began, from.run}
	err = tx.QueryRowContext(ctx, nextUnfilled, from.fn, from.began, from.run, maxFilled-1).Scan(&to.fn, &to.began, &to.run)
	if more = err == nil; more {
		query, args = query+` AND (fn, began, run) <= ($4, $5, $6)`, append(args, to.fn, to.began, to.run)
	} else if !errors.Is(err, sql.ErrNoRows) {
		return false, err
	}
	if _, err := tx.ExecContext(ctx, query, args...); err != nil {
		return false, err
	}
	move, moved := `UPDATE onecall_filling SET fn = $1, began = $2, run = $3`, []any{to.fn, to.began, to.run}
	if !more {
		move, moved = `DELETE FROM onecall_filling`, nil
	}
	if _, err := tx.ExecContext(ctx, move, moved...); err != nil {
		return false, err
	}
	return more, tx.Commit()
}
