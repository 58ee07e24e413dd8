package sqljournal

import (
	"context"
	"encoding/json"
	"time"

	"github.com/onecall-mcp/onecall/chain/journal"
)

// maxExpired bounds the runs that one transaction forgets: others wait for it.
const maxExpired = 200

// Expire implements journal.Driver.
func (d *Driver) Expire(ctx context.Context, at, days time.Time) error {
	var after position
	for more := true; more; {
		err := d.do(ctx, d.timeout, func(ctx context.Context, db *database) error {
			last, found, err := db.forget(ctx, at, after)
			if err == nil {
				after, more = last, found == maxExpired
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return d.do(ctx, d.timeout, func(ctx context.Context, db *database) error {
		if _, err := db.write.ExecContext(ctx, `DELETE FROM onecall_days WHERE day < $1`, journal.DayOf(days)); err != nil {
			return err
		}
		return db.tidy(ctx)
	})
}

// position is behind the runs that were looked at; those that go on are left.
type position struct{ expires, n int64 }

const findExpired = `SELECT n, expires, holder FROM onecall_runs WHERE expires < $1 AND (expires, n) > ($2, $3)
	ORDER BY expires, n LIMIT $4 FOR UPDATE SKIP LOCKED`

const these = ` (SELECT CAST(value AS BIGINT) FROM EACH($1) AS v)`

// forget forgets the next runs that have expired, and gives how many it looked at.
func (db *database) forget(ctx context.Context, at time.Time, after position) (last position, found int, err error) {
	tx, err := db.write.BeginTx(ctx, nil)
	if err != nil {
		return after, 0, err
	}
	defer tx.Rollback() //nolint:errcheck // it is committed, or the error is known
	holders := map[string][]int64{}
	err = each(ctx, tx, func(scan func(...any) error) error {
		var holder string
		if err := scan(&last.n, &last.expires, &holder); err != nil {
			return err
		}
		holders[holder] = append(holders[holder], last.n)
		found++
		return nil
	}, db.sql(findExpired), at.UnixMicro(), after.expires, after.n, maxExpired)
	if err != nil || found == 0 {
		return after, 0, err
	}
	var gone []int64
	for holder, runs := range holders {
		if busy, err := db.holds(ctx, tx, holder); err != nil {
			return after, 0, err
		} else if !busy {
			gone = append(gone, runs...)
		}
	}
	if len(gone) == 0 {
		return last, found, nil
	}
	list, err := json.Marshal(gone)
	if err != nil {
		return after, 0, err
	}
	for _, query := range []string{forgetFunctions + `WHERE r.n IN` + these + `)`, `DELETE FROM onecall_segments WHERE run IN` + these,
		`DELETE FROM onecall_runs WHERE n IN` + these} {
		if _, err := tx.ExecContext(ctx, db.sql(query), string(list)); err != nil {
			return after, 0, err
		}
	}
	return last, found, tx.Commit()
}
