package sqljournal

import (
	"context"
	"encoding/json"
	"time"

	"github.com/onecall-mcp/onecall/chain/journal"
)

// maxExpired bounds the runs that one transaction removes, since others wait for it.
const maxExpired = 200

// Expire implements journal.Driver.
func (d *Driver) Expire(ctx context.Context, at, days time.Time) error {
	var after expiryPosition
	for more := true; more; {
		err := d.withDatabase(ctx, d.timeout, func(ctx context.Context, db *database) error {
			last, count, err := db.removeExpired(ctx, at, after)
			if err == nil {
				after, more = last, count == maxExpired
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	err := d.withDatabase(ctx, d.timeout, func(ctx context.Context, db *database) error {
		if _, err := db.write.ExecContext(ctx, `DELETE FROM onecall_days WHERE day < $1`, journal.DayOf(days)); err != nil {
			return err
		}
		if err := db.expireState(ctx); err != nil {
			return err
		}
		return db.cleanUp(ctx)
	})
	began, more := time.Now(), err == nil
	for n := 0; more && n < maxFills && time.Since(began) < maxFillTime; n++ {
		err = d.withDatabase(ctx, d.timeout, func(ctx context.Context, db *database) (err error) {
			more, err = db.fill(ctx)
			return err
		})
		more = more && err == nil
	}
	return err
}

// expiryPosition is the position after the runs that were checked, including those that are not removed.
type expiryPosition struct{ expires, n int64 }

const findExpired = `SELECT n, expires, holder FROM onecall_runs WHERE expires < $1 AND (expires, n) > ($2, $3)
	ORDER BY expires, n LIMIT $4 FOR UPDATE SKIP LOCKED`

const inList = ` (SELECT CAST(value AS BIGINT) FROM EACH($1) AS v)`

// removeExpired removes the next runs that have expired, and returns how many it checked.
func (db *database) removeExpired(ctx context.Context, at time.Time, after expiryPosition) (last expiryPosition, count int, err error) {
	tx, err := db.write.BeginTx(ctx, nil)
	if err != nil {
		return after, 0, err
	}
	defer tx.Rollback() //nolint:errcheck // it is committed, or the error is known
	holders := map[string][]int64{}
	err = forEachRow(ctx, tx, func(scan func(...any) error) error {
		var holder string
		if err := scan(&last.n, &last.expires, &holder); err != nil {
			return err
		}
		holders[holder] = append(holders[holder], last.n)
		count++
		return nil
	}, db.SQL(findExpired), at.UnixMicro(), after.expires, after.n, maxExpired)
	if err != nil || count == 0 {
		return after, 0, err
	}
	var expired []int64
	for holder, runs := range holders {
		if busy, err := db.isLive(ctx, tx, holder); err != nil {
			return after, 0, err
		} else if !busy {
			expired = append(expired, runs...)
		}
	}
	if len(expired) == 0 {
		return last, count, nil
	}
	list, err := json.Marshal(expired)
	if err != nil {
		return after, 0, err
	}
	for _, query := range []string{forgetFunctions + `WHERE r.n IN` + inList + `)`, `DELETE FROM onecall_segments WHERE run IN` + inList,
		`DELETE FROM onecall_runs WHERE n IN` + inList} { // and its pieces: see endPieces
		if _, err := tx.ExecContext(ctx, db.SQL(query), string(list)); err != nil {
			return after, 0, err
		}
	}
	return last, count, tx.Commit()
}
