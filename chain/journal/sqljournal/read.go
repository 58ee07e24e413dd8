package sqljournal

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/onecall-mcp/onecall/chain/journal"
)

// patience is how many times as long as a write a list may take.
const patience = 3

const rowColumns = `SELECT r.id, r.lease, r.caller, r.run_key, r.chain, r.hash, r.functions, r.began, r.status, r.code, r.last_at,
	r.expires, r.steps, r.calls, r.reused, r.writes, r.took, r.tokens, r.kept, r.holder FROM `

func scanRow(scan func(...any) error) (r journal.Row, holder string, err error) {
	var functions string
	var began, last, expires, took int64
	err = scan(&r.ID, &r.Lease, &r.Caller, &r.Key, &r.Chain, &r.Hash, &functions, &began, &r.Status, &r.Code, &last,
		&expires, &r.Steps, &r.Calls, &r.Reused, &r.Writes, &took, &r.Tokens, &r.Kept, &holder)
	if err != nil {
		return r, "", err
	}
	r.Began, r.Last, r.Expires = time.UnixMicro(began), time.UnixMicro(last), time.UnixMicro(expires)
	r.Took = time.Duration(took) * time.Microsecond
	if functions == "[]" {
		return r, holder, nil
	}
	if err := json.Unmarshal([]byte(functions), &r.Functions); err != nil {
		return r, "", fmt.Errorf("%w: the functions of run %s cannot be read", errDamaged, r.ID)
	}
	return r, holder, nil
}

// interrupted finds out which of the runs under way nobody has who lives.
func (db *database) interrupted(ctx context.Context, rows []journal.Row, holders []string) error {
	known := map[string]bool{}
	for i := range rows {
		if rows[i].Status != journal.Running {
			continue
		}
		alive, asked := known[holders[i]]
		if !asked {
			var err error
			if alive, err = db.holds(ctx, db.read, holders[i]); err != nil {
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

// queries is what reads: a database or a transaction.
type queries interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// Load implements journal.Driver.
func (d *Driver) Load(ctx context.Context, id string) (rec *journal.Record, err error) {
	err = d.do(ctx, d.timeout, func(ctx context.Context, db *database) error {
		var holder string
		if rec, holder, err = db.load(ctx, db.read, id); err != nil {
			return err
		}
		rows := []journal.Row{rec.Row}
		err = db.interrupted(ctx, rows, []string{holder})
		rec.Row = rows[0]
		return err
	})
	if err != nil {
		return nil, err
	}
	return rec, nil
}

// segmentsOf a run are the one in its row, which is its first, and those beside it.
const segmentsOf = `SELECT 1, 1, first_events, first_results, first_kept FROM onecall_runs WHERE id = $1 AND first_events IS NOT NULL
	UNION ALL SELECT s.lease, s.first_n, s.events, s.results, s.kept FROM onecall_segments s JOIN onecall_runs r ON r.n = s.run
	WHERE r.id = $1 ORDER BY 1, 2`

func (db *database) load(ctx context.Context, from queries, id string) (rec *journal.Record, holder string, err error) {
	rec = &journal.Record{}
	rec.Row, holder, err = scanRow(from.QueryRowContext(ctx, rowColumns+`onecall_runs r WHERE r.id = $1`, text(id)).Scan)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, "", journal.ErrNotFound
	} else if err != nil {
		return nil, "", err
	}
	return rec, holder, each(ctx, from, func(scan func(...any) error) error {
		var s journal.Segment
		if err := scan(&s.Lease, &s.First, &s.Events, &s.Results, &s.Kept); err != nil {
			return err
		}
		rec.Segments = append(rec.Segments, s)
		return nil
	}, segmentsOf, text(id))
}

// each calls f for each row of a query.
func each(ctx context.Context, from queries, f func(scan func(...any) error) error, query string, args ...any) error {
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
func (d *Driver) Find(ctx context.Context, caller, key, prefix string) (id string, err error) {
	var w where
	if key != "" {
		w.and("run_key <> ''") // as its index has it
		w.and("caller = ", text(caller))
		w.and("run_key = ", text(key))
	} else if prefix = text(prefix); prefix != "" {
		w.and("id >= ", prefix)
		w.and("id < ", prefix[:len(prefix)-1]+string(rune(prefix[len(prefix)-1]+1)))
	}
	err = d.do(ctx, d.timeout, func(ctx context.Context, db *database) error {
		err := db.read.QueryRowContext(ctx, `SELECT id FROM onecall_runs`+w.String()+` ORDER BY began DESC, n DESC LIMIT 1`, w.args...).Scan(&id)
		if errors.Is(err, sql.ErrNoRows) {
			return journal.ErrNotFound
		}
		return err
	})
	return id, err
}

// where is a condition with its arguments.
type where struct {
	terms []string
	args  []any
}

// and adds a term, which ends with its argument if it has one.
func (w *where) and(term string, arg ...any) {
	for _, a := range arg {
		w.args = append(w.args, a)
		term += fmt.Sprintf("$%d", len(w.args))
	}
	w.terms = append(w.terms, term)
}

func (w *where) String() string {
	if len(w.terms) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(w.terms, " AND ")
}

// List implements journal.Driver. What is rare among the runs is found by an index: a status but ok, a function, a caller, a
// chain. Of two of these the first in this order is looked up, and the others are looked for in what it gives.
func (d *Driver) List(ctx context.Context, f *journal.Filter) (rows []journal.Row, err error) {
	query, args := listQuery(f)
	err = d.do(ctx, patience*d.timeout, func(ctx context.Context, db *database) error {
		rows = nil
		var holders []string
		err := each(ctx, db.read, func(scan func(...any) error) error {
			r, holder, err := scanRow(scan)
			rows, holders = append(rows, r), append(holders, holder)
			return err
		}, query, args...)
		if err != nil {
			return err
		}
		return db.interrupted(ctx, rows, holders)
	})
	if err != nil {
		return nil, err
	}
	if !underWay(f.Status) {
		return rows, nil
	}
	rows = slices.DeleteFunc(rows, func(r journal.Row) bool { return r.Status != f.Status })
	if f.Limit > 0 && len(rows) > f.Limit {
		rows = rows[:f.Limit]
	}
	return rows, nil
}

// underWay reports whether runs of a status are written as running.
func underWay(s journal.Status) bool { return s == journal.Running || s == journal.Interrupted }

func listQuery(f *journal.Filter) (query string, args []any) {
	var w where
	from, began, order := "onecall_runs r", "r.began", " ORDER BY r.began DESC, r.n DESC"
	status, limit := f.Status, f.Limit
	if underWay(status) { // which of them is found out after
		status, limit = journal.Running, 0
	}
	if status != "" {
		w.and("r.status = ", text(string(status)))
	}
	rare := f.Status != "" && f.Status != journal.OK
	if rare {
		w.and("r.status <> 'ok'") // as its index has it
	}
	switch {
	case f.Function == "":
	case rare:
		w.and("EXISTS (SELECT 1 FROM onecall_functions f WHERE f.began = r.began AND f.run = r.n AND f.fn = ", text(f.Function))
		w.terms[len(w.terms)-1] += ")"
	default:
		from, began, order = "onecall_functions f CROSS JOIN onecall_runs r", "f.began", " ORDER BY f.began DESC, f.run DESC"
		w.and("r.n = f.run")
		w.and("f.fn = ", text(f.Function))
	}
	if f.Caller != nil {
		w.and("r.caller = ", text(*f.Caller))
	}
	if f.Chain != "" {
		w.and("r.chain <> ''")
		w.and("r.chain = ", text(f.Chain))
	}
	if !f.Since.IsZero() {
		w.and(began+" >= ", f.Since.UnixMicro())
	}
	if !f.Until.IsZero() {
		w.and(began+" < ", f.Until.UnixMicro())
	}
	query = rowColumns + from + w.String() + order
	if limit > 0 {
		query += fmt.Sprintf(" LIMIT %d", limit)
	}
	return query, w.args
}

// Days implements journal.Driver.
func (d *Driver) Days(ctx context.Context, f *journal.Filter) (days []journal.Day, err error) {
	var w where
	if f.Caller != nil {
		w.and("caller = ", text(*f.Caller))
	}
	if f.Chain != "" {
		w.and("chain = ", text(f.Chain))
	}
	if f.Function != "" {
		w.and("fn = ", text(f.Function))
	}
	if !f.Since.IsZero() {
		w.and("day >= ", journal.DayOf(f.Since))
	}
	if !f.Until.IsZero() {
		w.and("day <= ", journal.DayOf(f.Until))
	}
	err = d.do(ctx, patience*d.timeout, func(ctx context.Context, db *database) error {
		days = nil
		return each(ctx, db.read, func(scan func(...any) error) error {
			var s journal.Day
			var times []byte
			err := scan(&s.Day, &s.Caller, &s.Chain, &s.Function, &s.Count, &s.Failures, &s.Calls, &s.Tokens, &s.Kept, &times)
			if err == nil {
				s.Times, err = decodeTimes(times)
			}
			days = append(days, s)
			return err
		}, `SELECT day, caller, chain, fn, counted, failures, calls, tokens, kept, times FROM onecall_days`+w.String(), w.args...)
	})
	if err != nil {
		return nil, err
	}
	return days, nil
}
