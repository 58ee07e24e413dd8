package sqljournal

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"slices"
	"time"
)

// sqliteWriter begins transactions on the one connection that writes. It keeps their statements prepared, which database/sql does not.
type sqliteWriter struct {
	db       *database
	prepConn any // the connection of prepared
	prepared map[string]driver.Stmt
	args     []driver.NamedValue // the arguments of the last statement; reused
}

func (w *sqliteWriter) beginTx(ctx context.Context) (transaction, error) {
	conn, err := w.db.write.Conn(ctx)
	if err != nil {
		return nil, err
	}
	t := &sqliteTransaction{w: w, conn: conn}
	if err := t.run(ctx, statement{sql: "BEGIN IMMEDIATE"}); err != nil {
		w.closeStatements(conn) // closes an interrupted statement
		conn.Close()
		return nil, err
	}
	t.open = true
	return t, nil
}

type sqliteTransaction struct {
	w    *sqliteWriter
	conn *sql.Conn
	open bool
}

// run executes a statement that may have to wait for other processes.
func (t *sqliteTransaction) run(ctx context.Context, s statement) error {
	return t.conn.Raw(func(on any) error {
		prepared, args, err := t.w.prepare(ctx, on, s)
		if err == nil {
			_, err = prepared.(driver.StmtExecContext).ExecContext(ctx, args)
		}
		return err
	})
}

// exec implements transaction. Within a transaction, statements do not wait for other processes, and watching a context during each of them
// would take a tenth of the time.
func (t *sqliteTransaction) exec(ctx context.Context, list []statement, last bool) (changed []int64, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	ctx = context.Background()
	if last {
		list = append(list[:len(list):len(list)], statement{sql: "COMMIT"})
	}
	changed = make([]int64, len(list))
	err = t.conn.Raw(func(on any) error {
		for i, s := range list {
			prepared, args, err := t.w.prepare(ctx, on, s)
			if err != nil {
				return err
			}
			result, err := prepared.(driver.StmtExecContext).ExecContext(ctx, args)
			if err != nil {
				return err
			}
			if changed[i], err = result.RowsAffected(); err != nil {
				return err
			}
		}
		return nil
	})
	t.open = t.open && (err != nil || !last)
	return changed, err
}

func (t *sqliteTransaction) query(ctx context.Context, s statement) (row []any, err error) {
	err = t.conn.Raw(func(on any) error {
		prepared, args, err := t.w.prepare(ctx, on, s)
		if err != nil {
			return err
		}
		rows, err := prepared.(driver.StmtQueryContext).QueryContext(ctx, args)
		if err != nil {
			return err
		}
		defer rows.Close()
		values := make([]driver.Value, len(rows.Columns()))
		if err := rows.Next(values); errors.Is(err, io.EOF) {
			return sql.ErrNoRows
		} else if err != nil {
			return err
		}
		row = make([]any, len(values))
		for i, value := range values {
			if bytes, ok := value.([]byte); ok {
				value = slices.Clone(bytes)
			}
			row[i] = value
		}
		return nil
	})
	return row, err
}

// prepare returns a prepared statement and its arguments, which are valid until the next call.
func (w *sqliteWriter) prepare(ctx context.Context, on any, s statement) (driver.Stmt, []driver.NamedValue, error) {
	if w.prepConn != on { // the statements of the previous connection are gone
		w.prepConn, w.prepared = on, map[string]driver.Stmt{}
	}
	prepared := w.prepared[s.sql]
	if prepared == nil {
		var err error
		if prepared, err = on.(driver.ConnPrepareContext).PrepareContext(ctx, w.db.SQL(s.sql)); err != nil {
			return nil, nil, err
		}
		w.prepared[s.sql] = prepared
	}
	w.args = w.args[:0]
	for i, arg := range s.args {
		value, err := driver.DefaultParameterConverter.ConvertValue(arg)
		if err != nil {
			return nil, nil, err
		}
		w.args = append(w.args, driver.NamedValue{Ordinal: i + 1, Value: value})
	}
	return prepared, w.args, nil
}

// closeStatements closes the statements of a connection: SQLite keeps a connection with open statements, and its log, open. Statements of
// a closed connection cannot be closed.
func (w *sqliteWriter) closeStatements(conn *sql.Conn) {
	_ = conn.Raw(func(on any) error {
		if w.prepConn == on {
			for _, s := range w.prepared {
				_ = s.Close() // the connection is closed next anyway
			}
		}
		return nil
	})
	w.prepConn, w.prepared = nil, map[string]driver.Stmt{}
}

// close waits for the current transaction and closes the statements.
func (w *sqliteWriter) close() {
	if conn, err := w.db.write.Conn(context.Background()); err == nil {
		w.closeStatements(conn)
		conn.Close()
	}
}

// rollbackTime bounds a rollback, since the context of the transaction may have ended.
const rollbackTime = time.Second

func (t *sqliteTransaction) end() {
	if t.open {
		ctx, cancel := context.WithTimeout(context.Background(), rollbackTime)
		defer cancel()
		if err := t.run(ctx, statement{sql: "ROLLBACK"}); err != nil {
			t.w.closeStatements(t.conn)
			_ = t.conn.Raw(func(any) error { return driver.ErrBadConn }) // the connection must not be reused
		}
	}
	t.conn.Close()
}
