package sqljournal

import (
	"context"
	"time"
)

// The rows of onecall_functions say of each run which functions its chain names, who began it (caller), and whether it is not ok (failed),
// so that an index finds the runs of a function, of a caller that uses it, and those of them that are not ok. The rows of an older version
// lack the last two until fill has come to them, and so do those that a process of an older version writes beside newer ones: an index has
// them. A run that was ok and that such a process undoes or resumes is missing in lists of runs of a function that are not ok.

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
	// unfilled is ordered so that only the index of such rows serves it.
	unfilled      = `SELECT fn, began, run FROM onecall_functions WHERE caller IS NULL ORDER BY run LIMIT $1 FOR UPDATE SKIP LOCKED`
	fillFunctions = `UPDATE onecall_functions SET
	caller = COALESCE((SELECT r.caller FROM onecall_runs r WHERE r.n = onecall_functions.run), ''),
	failed = COALESCE((SELECT CASE WHEN r.status = 'ok' THEN 0 ELSE 1 END FROM onecall_runs r WHERE r.n = onecall_functions.run), 0)
	WHERE (fn, began, run) IN (` + unfilled + `)`
	countUnfilled = `SELECT count(*) FROM (SELECT run FROM onecall_functions WHERE caller IS NULL ORDER BY run LIMIT 1) AS f`
)

// Bounds of fill: rows of a transaction, since others wait for it, and transactions and time of an Expire, since closing waits for that.
const (
	maxFilled   = 200
	maxFills    = 100
	maxFillTime = 2 * time.Second
)

// isFilled reports whether all rows of onecall_functions say what their runs do.
func (db *database) isFilled(ctx context.Context) (bool, error) {
	var rows int
	err := db.read.QueryRowContext(ctx, countUnfilled).Scan(&rows)
	return err == nil && rows == 0, err
}

// fill fills in the next rows of an older version. It reports whether there may be more.
func (db *database) fill(ctx context.Context) (more bool, err error) {
	if filled, err := db.isFilled(ctx); filled || err != nil {
		return false, err
	}
	result, err := db.write.ExecContext(ctx, db.SQL(fillFunctions), maxFilled)
	if err != nil {
		return false, err
	}
	rows, err := result.RowsAffected()
	return rows == maxFilled, err
}
