package sqljournal

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/onecall-mcp/onecall/chain/journal"
)

// listTimeoutFactor is how many times longer a list may take than a write.
const listTimeoutFactor = 3

const rowColumns = `SELECT r.id, r.lease, r.caller, r.run_key, r.chain, r.hash, r.functions, r.began, r.status, r.code, r.last_at,
	r.expires, r.steps, r.calls, r.reused, r.writes, r.undos, r.undo_left, r.took, r.tokens, r.kept, r.parent, r.batch,
	r.handover_lease, r.last_lease, r.scope, r.holder`

func scanRow(scan func(...any) error) (r journal.Row, holder string, err error) {
	var functions string
	var began, last, expires, took, batch int64
	err = scan(&r.ID, &r.Lease, &r.Caller, &r.Key, &r.Chain, &r.Hash, &functions, &began, &r.Status, &r.Code, &last,
		&expires, &r.Steps, &r.Calls, &r.Reused, &r.Writes, &r.Undos, &r.Left, &took, &r.Tokens, &r.Stored, &r.Parent, &batch,
		&r.HandoverLease, &r.LastLease, &r.Scope, &holder)
	if err != nil {
		return r, "", err
	}
	r.Began, r.Last, r.Expires = time.UnixMicro(began), time.UnixMicro(last), time.UnixMicro(expires)
	r.Took, r.Batch = time.Duration(took)*time.Microsecond, batch != 0
	if functions == "[]" {
		return r, holder, nil
	}
	if err := json.Unmarshal([]byte(functions), &r.Functions); err != nil {
		return r, "", fmt.Errorf("%w: the functions of run %s cannot be read", errDamaged, r.ID)
	}
	return r, holder, nil
}

// markInterrupted sets the status Interrupted of running runs without a live holder.
func (db *database) markInterrupted(ctx context.Context, rows []journal.Row, holders []string) error {
	known := map[string]bool{}
	for i := range rows {
		if rows[i].Status != journal.Running || rows[i].Batch {
			continue
		}
		alive, ok := known[holders[i]]
		if !ok {
			var err error
			if alive, err = db.isLive(ctx, db.read, holders[i]); err != nil {
				return err
			}
			known[holders[i]] = alive
		}
		if !alive {
			rows[i].Status = journal.Interrupted
		}
	}
	return nil
}

// queries is a database or a transaction to read from.
type queries interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// Load implements journal.Driver.
func (d *Driver) Load(ctx context.Context, id string, lease int64, first int) (rec *journal.Record, err error) {
	err = d.withDatabase(ctx, d.timeout, func(ctx context.Context, db *database) error {
		var holder string
		if rec, holder, err = db.loadAtOnce(ctx, id, lease, first); err != nil {
			return err
		}
		rows := []journal.Row{rec.Row}
		err = db.markInterrupted(ctx, rows, []string{holder})
		rec.Row = rows[0]
		return err
	})
	if err != nil {
		return nil, err
	}
	return rec, nil
}

// LoadRow implements journal.Driver.
func (d *Driver) LoadRow(ctx context.Context, id string) (row *journal.Row, err error) {
	err = d.withDatabase(ctx, d.timeout, func(ctx context.Context, db *database) error {
		r, holder, _, err := db.loadRow(ctx, db.read, id)
		if err != nil {
			return err
		}
		rows := []journal.Row{r}
		row = &rows[0]
		return db.markInterrupted(ctx, rows, []string{holder})
	})
	if err != nil {
		return nil, err
	}
	return row, nil
}

// loadAtOnce loads a run as it is at one moment: a run that expires meanwhile would seem to have lost its segments.
func (db *database) loadAtOnce(ctx context.Context, id string, lease int64, first int) (_ *journal.Record, holder string, err error) {
	tx, err := db.read.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
	if err != nil {
		return nil, "", err
	}
	defer tx.Rollback() //nolint:errcheck // it has only read
	return db.load(ctx, tx, id, lease, first)
}

// segmentsOf selects the segments of a run that follow a lease and first number, each with the number of its pieces and followed by them:
// its first may be in its row.
const segmentsOf = `SELECT 1, 1, 0, 0, first_events, first_results, first_kept FROM onecall_runs WHERE id = $1 AND first_events IS NOT NULL
	AND CAST($2 AS BIGINT) = 0
	UNION ALL SELECT s.lease, s.first_n, 0, coalesce((SELECT max(p.piece) FROM onecall_pieces p
		WHERE p.run = s.run AND p.lease = s.lease AND p.first_n = s.first_n), 0), s.events, s.results, s.kept
	FROM onecall_segments s JOIN onecall_runs r ON r.n = s.run WHERE r.id = $1 AND (s.lease, s.first_n) > ($2, $3)
	UNION ALL SELECT p.lease, p.first_n, p.piece, 0, NULL, p.results, NULL FROM onecall_pieces p JOIN onecall_runs r ON r.n = p.run
	WHERE r.id = $1 AND (p.lease, p.first_n) > ($2, $3) ORDER BY 1, 2, 3`

func (db *database) load(ctx context.Context, from queries, id string, lease int64, first int) (_ *journal.Record, holder string,
	err error) {
	rec := &journal.Record{}
	if rec.Row, holder, rec.Written, err = db.loadRow(ctx, from, id); err != nil {
		return nil, "", err
	}
	return rec, holder, forEachRow(ctx, from, func(scan func(...any) error) error {
		var s journal.Segment
		var piece, pieces int
		var results sql.RawBytes
		if err := scan(&s.Lease, &s.First, &piece, &pieces, &s.Events, &results, &s.Retained); err != nil {
			return err
		}
		if piece == 0 {
			if results != nil {
				s.Results = append(make([]byte, 0, len(results)+pieces*pieceBytes), results...)
			}
			rec.Segments = append(rec.Segments, s)
			return nil
		}
		// An older version that drops the results of a segment leaves its pieces.
		if n := len(rec.Segments); n > 0 && rec.Segments[n-1].Lease == s.Lease && rec.Segments[n-1].First == s.First &&
			rec.Segments[n-1].Results != nil {
			rec.Segments[n-1].Results = append(rec.Segments[n-1].Results, results...)
		}
		return nil
	}, db.SQL(segmentsOf), validText(id), lease, first)
}

// loadRow loads the row of a run, and the number of its segments (journal.Record.Written).
func (db *database) loadRow(ctx context.Context, from queries, id string) (row journal.Row, holder string, segments int, err error) {
	found := from.QueryRowContext(ctx, rowColumns+`, r.segments FROM onecall_runs r WHERE r.id = $1`, validText(id))
	row, holder, err = scanRow(func(columns ...any) error { return found.Scan(append(columns, &segments)...) })
	if errors.Is(err, sql.ErrNoRows) {
		err = journal.ErrNotFound
	}
	return row, holder, segments, err
}

// forEachRow calls f for each row of a query.
func forEachRow(ctx context.Context, from queries, f func(scan func(...any) error) error, query string, args ...any) error {
	rows, err := from.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := f(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// Find implements journal.Driver.
func (d *Driver) Find(ctx context.Context, caller, key string) (id string, expires time.Time, err error) {
	var micros int64
	err = d.withDatabase(ctx, d.timeout, func(ctx context.Context, db *database) error {
		err := db.read.QueryRowContext(ctx, `SELECT id, expires FROM onecall_runs WHERE run_key <> '' AND caller = $1 AND run_key = $2`,
			validText(caller), validText(key)).Scan(&id, &micros) // the first condition matches the partial index
		if errors.Is(err, sql.ErrNoRows) {
			return journal.ErrNotFound
		}
		return err
	})
	return id, time.UnixMicro(micros), err
}

// condition is an SQL condition with its arguments.
type condition struct {
	terms []string
	args  []any
}

// and adds a term. An argument is appended to its text as a placeholder.
func (w *condition) and(term string, arg ...any) {
	for _, a := range arg {
		w.args = append(w.args, a)
		term += fmt.Sprintf("$%d", len(w.args))
	}
	w.terms = append(w.terms, term)
}

// in adds that a column holds one of the texts.
func (w *condition) in(column string, texts []string) {
	places := make([]string, len(texts))
	for i, text := range texts {
		w.args = append(w.args, validText(text))
		places[i] = fmt.Sprintf("$%d", len(w.args))
	}
	w.terms = append(w.terms, column+" IN ("+strings.Join(places, ", ")+")")
}

func (w *condition) String() string {
	if len(w.terms) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(w.terms, " AND ")
}

// List implements journal.Driver. It uses the index of the rarest condition: a function, with it whether a run is not ok and its caller; a
// status other than ok, a caller, a chain, in this order. The other conditions are checked for the rows found.
func (d *Driver) List(ctx context.Context, f *journal.Filter) (rows []journal.Row, err error) {
	if !isStoredAsRunning(f.Status) {
		return d.list(ctx, f)
	}
	page := *f
	if f.Limit > 0 {
		page.Limit = max(f.Limit, runningPage)
	}
	for {
		found, err := d.list(ctx, &page)
		if err != nil {
			return nil, err
		}
		if n := len(found); n > 0 {
			page.Before = found[n-1].Position()
		}
		more := f.Limit > 0 && len(found) == page.Limit
		rows = append(rows, slices.DeleteFunc(found, func(r journal.Row) bool { return r.Status != f.Status })...)
		if f.Limit > 0 && len(rows) >= f.Limit {
			return rows[:f.Limit], nil
		}
		if !more {
			return rows, nil
		}
	}
}

// runningPage is how many rows are read at once, at least, to find those of live or dead processes among them.
const runningPage = 200

// list returns rows; of those that are stored as running, markInterrupted distinguishes which are.
func (d *Driver) list(ctx context.Context, f *journal.Filter) (rows []journal.Row, err error) {
	err = d.withDatabase(ctx, listTimeoutFactor*d.timeout, func(ctx context.Context, db *database) error {
		rows = nil
		var holders []string
		filled := false
		if f.Function != "" {
			var err error
			if filled, err = db.isFilled(ctx); err != nil {
				return err
			}
		}
		query, args := listQuery(f, filled)
		err := forEachRow(ctx, db.read, func(scan func(...any) error) error {
			r, holder, err := scanRow(scan)
			rows, holders = append(rows, r), append(holders, holder)
			return err
		}, query, args...)
		if err != nil {
			return err
		}
		return db.markInterrupted(ctx, rows, holders)
	})
	if err != nil {
		return nil, err
	}
	return rows, nil
}

// isStoredAsRunning reports whether runs with a status are stored as running.
func isStoredAsRunning(s journal.Status) bool {
	return s == journal.Running || s == journal.Interrupted
}

// listQuery returns the query for a list. filled: see isFilled.
func listQuery(f *journal.Filter, filled bool) (query string, args []any) {
	var w condition
	from, began, n, caller := "onecall_runs r", "r.began", "r.n", "r.caller"
	status := f.Status
	if isStoredAsRunning(status) {
		status = journal.Running
	}
	if status != "" {
		w.and("r.status = ", validText(string(status)))
	}
	if f.Code != "" {
		w.and("r.code = ", validText(string(f.Code)))
	}
	if f.AtWorkers {
		w.and("r.handover_lease <> 0 AND r.code = '' AND r.status IN ('running', 'waiting')")
	}
	notOK := f.NotOK || f.AtWorkers || f.Status != "" && f.Status != journal.OK
	if notOK {
		w.and("r.status <> 'ok'") // matches the partial index
	}
	switch {
	case f.Function == "":
	case notOK && !filled:
		w.and("EXISTS (SELECT 1 FROM onecall_functions f WHERE f.began = r.began AND f.run = r.n AND f.fn = ", validText(f.Function))
		w.terms[len(w.terms)-1] += ")"
	default:
		from, began, n = "onecall_functions f CROSS JOIN onecall_runs r", "f.began", "f.run"
		w.and("r.n = f.run")
		w.and("f.fn = ", validText(f.Function))
		if filled {
			caller = "f.caller"
		}
		if filled && notOK {
			w.and("f.failed <> 0") // matches the partial indexes
		}
	}
	if prefix := validText(f.IDPrefix); prefix != "" {
		w.and("r.id >= ", prefix)
		w.and("r.id < ", prefix+string(utf8.MaxRune)) // follows all ids with this prefix, which are ASCII
	}
	if len(f.Callers) > 0 {
		// Else SQLite takes the index of callers for two statuses, although far more runs of a caller have ended, for the beginning of an id,
		// which few runs have, and for several callers, whose runs it then has to sort.
		if f.AtWorkers || f.IDPrefix != "" || len(f.Callers) > 1 {
			caller += " || ''"
		}
		w.in(caller, f.Callers)
	}
	if f.Scope != nil {
		w.and("r.scope = ", validText(*f.Scope))
	}
	if f.Parent != nil {
		parent := "r.parent"
		if *f.Parent == "" && len(f.Callers) > 0 { // else SQLite takes the index of parents, although most runs have none
			parent += " || ''"
		}
		w.and(parent+" = ", validText(*f.Parent))
		if *f.Parent != "" {
			w.and("r.parent <> ''") // matches the partial index
		}
	}
	if len(f.Chains) > 0 {
		w.and("r.chain <> ''")
		w.in("r.chain", f.Chains)
	}
	if !f.Since.IsZero() {
		w.and(began+" >= ", f.Since.UnixMicro())
	}
	if !f.Until.IsZero() {
		w.and(began+" < ", f.Until.UnixMicro())
	}
	if b := f.Before; b != nil {
		w.args = append(w.args, b.Began.UnixMicro(), validText(b.ID))
		w.terms = append(w.terms, fmt.Sprintf("(%s, %s) < ($%d, COALESCE((SELECT n FROM onecall_runs WHERE id = $%d), %d))",
			began, n, len(w.args)-1, len(w.args), math.MaxInt64))
	}
	query = rowColumns + " FROM " + from + w.String() + fmt.Sprintf(" ORDER BY %s DESC, %s DESC", began, n)
	if f.Limit > 0 {
		query += fmt.Sprintf(" LIMIT %d", f.Limit)
	}
	return query, w.args
}

// Days implements journal.Driver.
func (d *Driver) Days(ctx context.Context, f *journal.Filter) (days []journal.Day, err error) {
	var w condition
	if len(f.Callers) > 0 {
		w.in("caller", f.Callers)
	}
	if len(f.Chains) > 0 {
		w.in("chain", f.Chains)
	}
	if f.Function != "" {
		w.and("fn = ", validText(f.Function))
	}
	if len(f.Functions) > 0 {
		w.in("fn", f.Functions)
	}
	if !f.Since.IsZero() {
		w.and("day >= ", journal.DayOf(f.Since))
	}
	if !f.Until.IsZero() {
		w.and("day <= ", journal.DayOf(f.Until))
	}
	err = d.withDatabase(ctx, listTimeoutFactor*d.timeout, func(ctx context.Context, db *database) error {
		days = nil
		return forEachRow(ctx, db.read, func(scan func(...any) error) error {
			var s journal.Day
			var times, sizes []byte
			err := scan(&s.Day, &s.Caller, &s.Chain, &s.Function, &s.Count, &s.Failures, &s.Calls, &s.Tokens, &s.Stored, &times, &sizes)
			if err == nil {
				s.Times, err = decodeTimes(times)
			}
			if err == nil {
				s.Sizes, err = decodeSizes(sizes)
			}
			days = append(days, s)
			return err
		}, `SELECT day, caller, chain, fn, counted, failures, calls, tokens, kept, times, sizes FROM onecall_days`+w.String(), w.args...)
	})
	if err != nil {
		return nil, err
	}
	return days, nil
}
