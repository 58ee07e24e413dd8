package sqljournal

import (
	"context"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/onecall-mcp/onecall/chain/journal"
)

// identity is the part of a row that seldom changes, as it is written. Indexes that hold it cost at each write of it.
type identity struct {
	caller, key, chain, hash, functions string
	began                               int64
}

func identityOf(r *journal.Row) *identity {
	functions := make([]string, 0, len(r.Functions))
	for _, f := range r.Functions {
		functions = append(functions, text(f))
	}
	list, _ := json.Marshal(functions) // strings always can be
	return &identity{text(r.Caller), text(r.Key), text(r.Chain), text(r.Hash), string(list), r.Began.UnixMicro()}
}

// text is a string as PostgreSQL takes it: UTF-8 without zero bytes.
func text(s string) string {
	if utf8.ValidString(s) && !strings.Contains(s, "\x00") {
		return s
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// Write implements journal.Driver.
func (d *Driver) Write(ctx context.Context, list []journal.Write) (refused []bool, err error) {
	if len(list) == 0 {
		return nil, nil
	}
	b := d.batch(list)
	err = d.do(ctx, d.timeout, func(ctx context.Context, db *database) error {
		tx, err := db.begin(ctx)
		if err != nil {
			return err
		}
		defer tx.end()
		changed, err := tx.exec(ctx, b.statements, len(b.days) == 0)
		if err != nil {
			return err
		}
		refused = b.refused(changed)
		if len(b.days) == 0 {
			return nil
		}
		return addDays(ctx, tx, sumDays(b.days, refused))
	})
	if err != nil {
		return nil, err
	}
	d.learn(b, refused)
	return refused, nil
}

// Check implements journal.Driver. It also finds out that a newer version has changed the tables while they are in use.
func (d *Driver) Check(ctx context.Context) error {
	return d.do(ctx, d.timeout, func(ctx context.Context, db *database) error {
		tx, err := db.begin(ctx)
		if err != nil {
			return err
		}
		defer tx.end()
		changed, err := tx.exec(ctx, []statement{{`UPDATE onecall_meta SET version = version WHERE version = $1`, []any{schemaVersion}}}, true)
		if err != nil || changed[0] > 0 {
			return err
		}
		_, err = db.version(ctx, db.read)
		return err
	})
}

// batch is the SQL of some writes.
type batch struct {
	list       []journal.Write
	statements []statement
	first      []int                 // for each write the statement that changes a row unless the write is refused
	rows       []*identity           // for each what its row says then; nil: as before
	days       map[int][]journal.Day // by write
}

func (d *Driver) batch(list []journal.Write) *batch {
	b := &batch{list: list, first: make([]int, len(list)), rows: make([]*identity, len(list)), days: map[int][]journal.Day{}}
	known := map[string]*identity{} // what a row says when a write comes to it
	d.mu.Lock()
	for i := range list {
		known[list[i].ID] = d.held[list[i].ID]
	}
	d.mu.Unlock()
	for i := range list {
		w := &list[i]
		b.first[i] = len(b.statements)
		if len(w.Days) > 0 {
			b.days[i] = w.Days
		}
		if w.Row == nil || w.Late {
			b.touch(w)
		} else {
			id := identityOf(w.Row)
			if w.New {
				b.insert(w, id, d.holder)
			} else {
				b.update(w, id, known[w.ID])
			}
			b.rows[i], known[w.ID] = id, id
		}
		b.segment(w)
	}
	return b
}

// refused tells which writes changed nothing.
func (b *batch) refused(changed []int64) []bool {
	refused := make([]bool, len(b.list))
	for i, at := range b.first {
		refused[i] = changed[at] == 0
	}
	return refused
}

// learn takes note of what the rows say now.
func (d *Driver) learn(b *batch, refused []bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range b.list {
		switch w := &b.list[i]; {
		case refused[i], w.Release:
			delete(d.held, w.ID)
		case b.rows[i] != nil:
			d.held[w.ID] = b.rows[i]
		}
	}
}

func (b *batch) add(sql string, args ...any) {
	b.statements = append(b.statements, statement{sql, args})
}

// standing are the columns of a row that change at each write.
func standing(r *journal.Row) []any {
	return []any{text(string(r.Status)), text(string(r.Code)), r.Last.UnixMicro(), r.Expires.UnixMicro(),
		r.Steps, r.Calls, r.Reused, r.Writes, r.Took.Microseconds()}
}

const insertRun = `INSERT INTO onecall_runs (id, lease, holder, caller, run_key, chain, hash, functions, began, status, code, last_at,
	expires, steps, calls, reused, writes, took, tokens, kept, first_events, first_results, first_kept)
	VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23) ON CONFLICT DO NOTHING`

func (b *batch) insert(w *journal.Write, id *identity, holder string) {
	if w.Release {
		holder = ""
	}
	args := append([]any{w.ID, w.Lease, holder, id.caller, id.key, id.chain, id.hash, id.functions, id.began}, standing(w.Row)...)
	args = append(args, w.Tokens, w.Kept)
	if packed(w) {
		args = append(args, notNull(w.Segment.Events), results(w), w.Segment.Kept)
	} else {
		args = append(args, nil, nil, nil)
	}
	b.add(insertRun, args...)
	b.functions(w, id)
}

// packed reports whether a write is all of a run that has ended. Its segment stands in its row: few others are ever added, and to write
// one row costs half of what two cost.
func packed(w *journal.Write) bool {
	return w.New && w.Release && w.Segment != nil && w.Segment.Lease == 1 && w.Segment.First == 1
}

// results are those that are kept of a write's segment.
func results(w *journal.Write) []byte {
	if w.DropResults && !w.Late {
		return nil
	}
	return w.Segment.Results
}

func (b *batch) functions(w *journal.Write, id *identity) {
	if id.functions != "[]" {
		b.add(`INSERT INTO onecall_functions (fn, began, run) SELECT f.value, r.began, r.n FROM onecall_runs r, EACH(r.functions) f
	WHERE r.id = $1 AND r.lease = $2 ON CONFLICT DO NOTHING`, w.ID, w.Lease)
	}
}

const (
	forgetFunctions = `DELETE FROM onecall_functions WHERE (fn, began, run) IN
	(SELECT f.value, r.began, r.n FROM onecall_runs r, EACH(r.functions) f `
	setIdentity = `UPDATE onecall_runs SET caller = $3, run_key = $4, chain = $5, hash = $6, functions = $7, began = $8`
	setStanding = `UPDATE onecall_runs SET status = $3, code = $4, last_at = $5, expires = $6, steps = $7, calls = $8, reused = $9,
	writes = $10, took = $11, tokens = tokens + $12, kept = kept + $13`
	addCosts   = `UPDATE onecall_runs SET tokens = tokens + $3, kept = kept + $4`
	andRelease = `, holder = CASE WHEN lease = $2 THEN '' ELSE holder END`
	andDrop    = `, first_results = NULL`
	ofHolder   = ` WHERE id = $1 AND lease = $2`
	ofAnybody  = ` WHERE id = $1 AND lease >= $2`
)

// update changes the row of a run, of which held was the identity; nil: nobody knows.
func (b *batch) update(w *journal.Write, id, held *identity) {
	query := setStanding
	if w.Release {
		query += andRelease
	}
	if w.DropResults {
		query += andDrop
	}
	args := append([]any{w.ID, w.Lease}, standing(w.Row)...)
	b.add(query+ofHolder, append(args, w.Tokens, w.Kept)...)
	if held != nil && *held == *id {
		return
	}
	functions := held == nil || held.functions != id.functions || held.began != id.began
	if functions {
		b.add(forgetFunctions+`WHERE r.id = $1 AND r.lease = $2)`, w.ID, w.Lease)
	}
	b.add(setIdentity+ofHolder, w.ID, w.Lease, id.caller, id.key, id.chain, id.hash, id.functions, id.began)
	if functions {
		b.functions(w, id)
	}
}

// touch leaves the row as it is, but for what answers cost and whose the lease is.
func (b *batch) touch(w *journal.Write) {
	query, whose := addCosts, ofHolder
	if w.Late {
		whose = ofAnybody
	}
	if w.Release {
		query += andRelease
	}
	if w.DropResults && !w.Late {
		query += andDrop
	}
	b.add(query+whose, w.ID, w.Lease, w.Tokens, w.Kept)
}

func (b *batch) segment(w *journal.Write) {
	whose := ofHolder
	if w.Late {
		whose = ofAnybody
	}
	if s := w.Segment; s != nil && !packed(w) {
		b.add(`INSERT INTO onecall_segments (run, lease, first_n, events, results, kept) SELECT n, $3, $4, $5, $6, $7 FROM onecall_runs`+whose+
			` ON CONFLICT (run, lease, first_n) DO NOTHING`, w.ID, w.Lease, s.Lease, s.First, notNull(s.Events), results(w), s.Kept)
	}
	if w.DropResults && !w.Late && !w.New {
		b.add(`UPDATE onecall_segments SET results = NULL WHERE results IS NOT NULL AND run = (SELECT n FROM onecall_runs`+whose+`)`,
			w.ID, w.Lease)
	}
}

func notNull(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}
