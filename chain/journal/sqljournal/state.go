package sqljournal

import (
	"context"
	"database/sql"
	"encoding/json"
	"time"

	"github.com/onecall-mcp/onecall/chain/journal"
)

// Parts of statements about state. CLOCK stands for the database's time in microseconds since 1970.
const (
	newOwner = `INSERT INTO onecall_state_owners (owner, version, bytes) VALUES ($1, 0, 0) ON CONFLICT DO NOTHING`
	// lockOwner waits for a transaction that has changed the owner's row, or is adding it.
	lockOwner = `INSERT INTO onecall_state_owners (owner, version, bytes) VALUES ($1, 0, 0)
	ON CONFLICT (owner) DO UPDATE SET version = onecall_state_owners.version`
	nextState = `UPDATE onecall_state_owners SET version = version + 1 WHERE owner = $1`
	viewState = `SELECT o.version, o.bytes, CLOCK, COALESCE(s.version, 0), COALESCE(s.expires, 0), COALESCE(s.size, 0), s.value
	FROM onecall_state_owners o LEFT JOIN onecall_state s ON s.owner = o.owner AND s.space = $2 AND s.name = $3 WHERE o.owner = $1`
	whereState = ` WHERE owner = $1 AND space = $2 AND name = $3 AND EXISTS (SELECT 1 FROM onecall_runs WHERE id = $4 AND lease = $5)`
	storeState = `INSERT INTO onecall_state (owner, space, name, version, expires, size, value)
	SELECT $1, $2, $3, $6, $7, $8, $9 FROM onecall_runs WHERE id = $4 AND lease = $5 ON CONFLICT (owner, space, name)
	DO UPDATE SET version = excluded.version, expires = excluded.expires, size = excluded.size, value = excluded.value`
	markState = `INSERT INTO onecall_state (owner, space, name, version, expires, size, value)
	VALUES ($1, $2, $3, 0, CLOCK + $4, 0, $5) ON CONFLICT (owner, space, name)
	DO UPDATE SET expires = CASE WHEN excluded.expires > onecall_state.expires THEN excluded.expires ELSE onecall_state.expires END`
	keepState = `INSERT INTO onecall_state (owner, space, name, version, expires, size, value)
	VALUES ($1, $2, $3, 0, CLOCK + $4, 0, $5) ON CONFLICT (owner, space, name)
	DO UPDATE SET expires = excluded.expires, value = excluded.value`
	ifAbsent   = ` WHERE onecall_state.expires <= CLOCK`
	countState = `UPDATE onecall_state_owners SET bytes = bytes + $2 WHERE owner = $1 AND
	EXISTS (SELECT 1 FROM onecall_runs WHERE id = $3 AND lease = $4)`
)

// stateChange is a change of state that was decided.
type stateChange struct {
	journal.StateKey
	result journal.StateResult
	grows  int64 // the bytes by which the owner's values grow
}

// decideState locks the values of an owner, shows a write what is there, and returns what it decides.
func decideState(ctx context.Context, tx transaction, w *journal.Write) (*stateChange, error) {
	key := journal.StateKey{Owner: validText(w.State.Owner), Space: validText(w.State.Space), Name: validText(w.State.Name)}
	_, err := tx.exec(ctx, []statement{{newOwner, []any{key.Owner}}, {nextState, []any{key.Owner}}}, false)
	if err != nil {
		return nil, err
	}
	row, err := tx.query(ctx, statement{viewState, []any{key.Owner, key.Space, key.Name}})
	if err != nil {
		return nil, err
	}
	var n [6]int64
	for i := range n {
		n[i], _ = row[i].(int64)
	}
	version, expires, size := n[3], time.UnixMicro(n[4]), n[5]
	at := &journal.StateView{Next: n[0], Size: n[1] - size, Now: time.UnixMicro(n[2])}
	if sealed, there := row[6].([]byte); there && expires.After(at.Now) {
		at.Row = &journal.StateRow{StateKey: w.State.StateKey, Version: version, Expires: expires, Size: int(size), Sealed: sealed}
	}
	c := &stateChange{StateKey: key, result: w.State.Decide(at, w), grows: -size}
	if c.result.Row != nil {
		c.grows += int64(c.result.Row.Size)
	}
	return c, nil
}

// changeState adds the statements of a change that was decided, unless the write is refused.
func (b *batch) changeState(w *journal.Write, c *stateChange) {
	key := []any{c.Owner, c.Space, c.Name, w.ID, w.Lease}
	switch r := c.result.Row; {
	case r != nil:
		b.addStatement(storeState, append(key, r.Version, r.Expires.UnixMicro(), r.Size, notNull(r.Sealed))...)
	case c.result.Remove:
		b.addStatement(`DELETE FROM onecall_state`+whereState, key...)
	default:
		return
	}
	b.addStatement(countState, c.Owner, c.grows, w.ID, w.Lease)
}

// AwaitState implements journal.Driver. The transaction of a change has the owner's row until it ends: with a commit that the server gets
// late, or because its connection is gone.
func (d *Driver) AwaitState(ctx context.Context, owner string) error {
	for end := time.Now().Add(d.timeout); d.commitsLate; {
		err := d.withDatabase(ctx, d.timeout, func(ctx context.Context, db *database) error {
			_, err := db.write.ExecContext(ctx, lockOwner, validText(owner))
			return err
		})
		if err == nil || time.Now().After(end) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(reopenAfter): // what has just failed is not asked again at once
		}
	}
	return nil
}

// States implements journal.Driver.
func (d *Driver) States(ctx context.Context, f *journal.StateFilter) (list []journal.StateRow, err error) {
	query, args := `SELECT space, name, version, expires, size, `, []any{validText(f.Owner)}
	if f.Values {
		query += `value`
	} else {
		query += `NULL`
	}
	query += ` FROM onecall_state WHERE owner = $1 AND expires > CLOCK`
	add := func(condition string, arg any) {
		args = append(args, arg)
		query += condition
	}
	if !f.AnySpace {
		add(` AND space = $2`, validText(f.Space))
	} else {
		add(` AND $2 = ''`, "")
	}
	if f.Names != nil {
		names, _ := json.Marshal(f.Names) // strings can always be encoded
		add(` AND name IN (SELECT v.value FROM EACH($3) AS v)`, string(names))
	} else {
		add(` AND substr(name, 1, length($3)) = $3`, validText(f.Prefix))
	}
	query += ` ORDER BY space, name`
	if f.Limit > 0 || f.Offset > 0 {
		limit := int64(f.Limit)
		if limit == 0 {
			limit = 1 << 62
		}
		add(` LIMIT $4`, limit)
		add(` OFFSET $5`, f.Offset)
	}
	err = d.withDatabase(ctx, d.timeout, func(ctx context.Context, db *database) error {
		list = nil
		rows, err := db.queryPrepared(ctx, query, args)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			r := journal.StateRow{StateKey: journal.StateKey{Owner: f.Owner}}
			var expires int64
			if err := rows.Scan(&r.Space, &r.Name, &r.Version, &expires, &r.Size, &r.Sealed); err != nil {
				return err
			}
			r.Expires = time.UnixMicro(expires)
			list = append(list, r)
		}
		return rows.Err()
	})
	return list, err
}

// queryPrepared makes a query whose text is one of few. It is prepared once, which takes SQLite longer than to find a row.
func (db *database) queryPrepared(ctx context.Context, query string, args []any) (*sql.Rows, error) {
	db.mu.Lock()
	prepared := db.prepared[query]
	db.mu.Unlock()
	if prepared == nil {
		var err error
		if prepared, err = db.read.PrepareContext(ctx, db.SQL(query)); err != nil {
			return nil, err
		}
		db.mu.Lock()
		if db.prepared == nil {
			db.prepared = map[string]*sql.Stmt{}
		}
		db.prepared[query] = prepared
		db.mu.Unlock()
	}
	return prepared.QueryContext(ctx, args...)
}

// expireState removes the values that have expired.
func (db *database) expireState(ctx context.Context) error {
	var now int64
	var some bool
	err := db.read.QueryRowContext(ctx, db.SQL(`SELECT CLOCK, EXISTS (SELECT 1 FROM onecall_state WHERE expires <= CLOCK)`)).Scan(&now, &some)
	if err != nil || !some {
		return err
	}
	return db.removeStates(ctx, `expires <= $1`, now)
}

// MarkState implements journal.Driver.
func (d *Driver) MarkState(ctx context.Context, key journal.StateKey, ttl time.Duration) error {
	return d.withDatabase(ctx, d.timeout, func(ctx context.Context, db *database) error {
		_, err := db.write.ExecContext(ctx, db.SQL(markState), validText(key.Owner), validText(key.Space), validText(key.Name),
			ttl.Microseconds(), []byte{})
		return err
	})
}

// KeepState implements journal.Driver.
func (d *Driver) KeepState(ctx context.Context, row *journal.StateRow, ttl time.Duration, absent bool) (kept bool, err error) {
	query := keepState
	if absent {
		query += ifAbsent
	}
	err = d.withDatabase(ctx, d.timeout, func(ctx context.Context, db *database) error {
		result, err := db.write.ExecContext(ctx, db.SQL(query), validText(row.Owner), validText(row.Space), validText(row.Name),
			ttl.Microseconds(), notNull(row.Sealed))
		if err != nil {
			return err
		}
		n, err := result.RowsAffected()
		kept = n > 0
		return err
	})
	return kept, err
}

// RemoveStates implements journal.Driver.
func (d *Driver) RemoveStates(ctx context.Context, owner string, spaces []string) error {
	valid := make([]string, len(spaces))
	for i := range spaces {
		valid[i] = validText(spaces[i])
	}
	list, _ := json.Marshal(valid) // strings can always be encoded
	return d.withDatabase(ctx, d.timeout, func(ctx context.Context, db *database) error {
		return db.removeStates(ctx, `owner = $1 AND space IN (SELECT v.value FROM EACH($2) AS v)`, validText(owner), string(list))
	})
}

// removeStates removes the values for which a condition holds, with what they count.
func (db *database) removeStates(ctx context.Context, condition string, args ...any) error {
	tx, err := db.write.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // it is committed, or the error is known
	of := `(SELECT owner FROM onecall_state WHERE ` + condition + `)`
	// The owners are locked first: the statements after it see what the changes before it have left.
	ignore := func(scan func(...any) error) error { return scan(new(string)) }
	if err := forEachRow(ctx, tx, ignore, db.SQL(`SELECT owner FROM onecall_state_owners WHERE owner IN `+of+
		` ORDER BY owner FOR UPDATE`), args...); err != nil {
		return err
	}
	for _, query := range []string{`UPDATE onecall_state_owners AS o SET bytes = bytes -
	(SELECT SUM(size) FROM onecall_state WHERE onecall_state.owner = o.owner AND ` + condition + `) WHERE owner IN ` + of,
		`DELETE FROM onecall_state WHERE ` + condition} {
		if _, err := tx.ExecContext(ctx, db.SQL(query), args...); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// decideAll has the changes of state of a list, by index, of which each owner has at most one.
func decideAll(ctx context.Context, tx transaction, list []journal.Write) (changes map[int]*stateChange, err error) {
	for i := range list {
		if list[i].State == nil {
			continue
		}
		if changes == nil {
			changes = map[int]*stateChange{}
		}
		if changes[i], err = decideState(ctx, tx, &list[i]); err != nil {
			return nil, err
		}
	}
	return changes, nil
}
