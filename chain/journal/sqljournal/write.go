package sqljournal

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/onecall-mcp/onecall/chain/journal"
)

// rowIdentity is the stored part of a row that seldom changes. Writing it is expensive, since indexes contain it.
type rowIdentity struct {
	caller, key, chain, hash, functions, scope string
	began                                      int64
	failed                                     bool // it is not ok: stored with its functions
}

func identityOf(r *journal.Row) *rowIdentity {
	functions := make([]string, 0, len(r.Functions))
	for _, f := range r.Functions {
		functions = append(functions, validText(f))
	}
	list, _ := json.Marshal(functions) // strings can always be encoded
	return &rowIdentity{validText(r.Caller), validText(r.Key), validText(r.Chain), validText(r.Hash), string(list), validText(r.Scope),
		r.Began.UnixMicro(), r.Status != journal.OK}
}

// validText makes a string acceptable to PostgreSQL: UTF-8 without zero bytes.
func validText(s string) string {
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
	var b *batch
	err = d.withDatabase(ctx, d.timeout, func(ctx context.Context, db *database) error {
		tx, err := db.beginTx(ctx)
		if err != nil {
			return err
		}
		defer tx.end()
		changes, err := decideAll(ctx, tx, list)
		if err != nil {
			return err
		}
		b = d.batch(list, changes)
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
	d.rememberRows(b, refused)
	return refused, nil
}

// Check implements journal.Driver. It also notices if a newer version has migrated the tables.
func (d *Driver) Check(ctx context.Context) error {
	return d.withDatabase(ctx, d.timeout, func(ctx context.Context, db *database) error {
		tx, err := db.beginTx(ctx)
		if err != nil {
			return err
		}
		defer tx.end()
		changed, err := tx.exec(ctx, []statement{{`UPDATE onecall_meta SET version = version WHERE version = $1`, []any{db.Current()}}},
			true)
		if err != nil || changed[0] > 0 {
			return err
		}
		_, err = db.Version(ctx, db.read)
		return err
	})
}

// Verify implements journal.Driver.
func (d *Driver) Verify(ctx context.Context) error {
	return d.withDatabase(ctx, verifyTimeoutFactor*d.timeout, func(ctx context.Context, db *database) error {
		if db.verify == nil {
			return nil
		}
		return db.verify(ctx)
	})
}

// verifyTimeoutFactor is how many times longer a check of the whole database may take than a write.
const verifyTimeoutFactor = 6

// batch is the SQL for some writes.
type batch struct {
	list       []journal.Write
	statements []statement
	first      []int                 // by write: the index of the statement that changes no row if the write is refused
	rows       []*rowIdentity        // by write: its new row; nil: unchanged
	days       map[int][]journal.Day // by index of the write: the sums to add
}

func (d *Driver) batch(list []journal.Write, changes map[int]*stateChange) *batch {
	b := &batch{list: list, first: make([]int, len(list)), rows: make([]*rowIdentity, len(list)), days: map[int][]journal.Day{}}
	known := map[string]*rowIdentity{} // the stored rows as each write finds them
	d.mu.Lock()
	for i := range list {
		known[list[i].ID] = d.rows[list[i].ID]
	}
	d.mu.Unlock()
	for i := range list {
		w := &list[i]
		b.first[i] = len(b.statements)
		if len(w.Days) > 0 {
			b.days[i] = w.Days
		}
		if w.Row == nil || w.Late {
			b.updateCosts(w)
		} else {
			id := identityOf(w.Row)
			if w.New {
				b.insertRow(w, id, d.holder)
			} else {
				b.updateRow(w, id, known[w.ID])
			}
			b.rows[i], known[w.ID] = id, id
		}
		b.addSegment(w)
		if c := changes[i]; c != nil {
			b.changeState(w, c)
		}
	}
	return b
}

// refused reports which writes changed nothing.
func (b *batch) refused(changed []int64) []bool {
	refused := make([]bool, len(b.list))
	for i, at := range b.first {
		refused[i] = changed[at] == 0
	}
	return refused
}

// rememberRows records the stored rows.
func (d *Driver) rememberRows(b *batch, refused []bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range b.list {
		switch w := &b.list[i]; {
		case refused[i], w.Release:
			delete(d.rows, w.ID)
		case b.rows[i] != nil:
			d.rows[w.ID] = b.rows[i]
		}
	}
}

func (b *batch) addStatement(sql string, args ...any) {
	b.statements = append(b.statements, statement{sql, args})
}

// changingColumns returns the columns of a row that change at each write.
func changingColumns(r *journal.Row) []any {
	return []any{validText(string(r.Status)), validText(string(r.Code)), r.Last.UnixMicro(), r.Expires.UnixMicro(),
		r.Steps, r.Calls, r.Reused, r.Writes, r.Undos, r.Left, r.Took.Microseconds(), r.HandoverLease, r.LastLease}
}

const insertRun = `INSERT INTO onecall_runs (id, lease, holder, caller, run_key, chain, hash, functions, scope, began, status, code,
	last_at, expires, steps, calls, reused, writes, undos, undo_left, took, handover_lease, last_lease, tokens, kept, parent, batch, segments,
	first_events, first_results, first_kept) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20,
	$21, $22, $23, $24, $25, $26, $27, $28, $29, $30, $31) ON CONFLICT DO NOTHING`

func (b *batch) insertRow(w *journal.Write, id *rowIdentity, holder string) {
	if w.Release {
		holder = ""
	}
	args := append([]any{w.ID, w.Lease, holder, id.caller, id.key, id.chain, id.hash, id.functions, id.scope, id.began},
		changingColumns(w.Row)...)
	batch, segments := 0, 0
	if w.Row.Batch {
		batch = 1
	}
	if w.Segment != nil {
		segments = 1
	}
	args = append(args, w.Tokens, w.Stored, validText(w.Row.Parent), batch, segments)
	if isWholeRun(w) {
		args = append(args, notNull(w.Segment.Events), storedResults(w), w.Segment.Retained)
	} else {
		args = append(args, nil, nil, nil)
	}
	b.addStatement(insertRun, args...)
	b.addFunctions(w, id)
}

// isWholeRun reports whether a write is a complete run. Its segment is stored in its row: few such runs get another segment, and writing
// one row takes half the time of two.
func isWholeRun(w *journal.Write) bool {
	return w.New && w.Release && w.Segment != nil && w.Segment.Lease == 1 && w.Segment.First == 1 && len(storedResults(w)) <= pieceBytes
}

// pieceBytes bounds the results in one row. What a segment has beyond that is in rows of its own, its pieces: SQLite keeps two copies of
// the row that it writes, beside the arguments.
const pieceBytes = 1 << 20

// storedResults returns the results of a write's segment that are stored; nil: none, because the same write drops them.
func storedResults(w *journal.Write) []byte {
	if w.DropResults && !w.Late {
		return nil
	}
	return w.Segment.Results
}

func (b *batch) addFunctions(w *journal.Write, id *rowIdentity) {
	if id.functions != "[]" {
		b.addStatement(addFunctions, w.ID, w.Lease)
	}
}

// Parts of statements.
const (
	setIdentity = `UPDATE onecall_runs SET caller = $3, run_key = $4, chain = $5, hash = $6, functions = $7, scope = $8,
	began = $9`
	setChanging = `UPDATE onecall_runs SET status = $3, code = $4, last_at = $5, expires = $6, steps = $7, calls = $8, reused = $9,
	writes = $10, undos = $11, undo_left = $12, took = $13, handover_lease = $14, last_lease = $15, tokens = tokens + $16, kept = kept + $17`
	addCosts   = `UPDATE onecall_runs SET tokens = tokens + $3, kept = kept + $4`
	andRelease = `, holder = CASE WHEN lease = $2 THEN '' ELSE holder END`
	andDrop    = `, first_results = NULL`
	andCount   = `, segments = segments + 1`
	// andCountOnce counts a segment that an earlier attempt at the write may have added and counted.
	andCountOnce = `, segments = segments + CASE WHEN EXISTS
	(SELECT 1 FROM onecall_segments s WHERE s.run = onecall_runs.n AND s.lease = $%d AND s.first_n = $%d) THEN 0 ELSE 1 END`
	ifLease    = ` WHERE id = $1 AND lease = $2`
	ifAnyLease = ` WHERE id = $1 AND lease >= $2`
)

// updateRow changes the row of a run. known is its stored identity; nil: unknown.
func (b *batch) updateRow(w *journal.Write, id, known *rowIdentity) {
	args := append([]any{w.ID, w.Lease}, changingColumns(w.Row)...)
	query, args := countSegment(w, setChanging, setChanging+andCount, append(args, w.Tokens, w.Stored))
	if w.Release {
		query += andRelease
	}
	if w.DropResults {
		query += andDrop
	}
	b.addStatement(query+ifLease, args...)
	if known != nil && known.failed != id.failed {
		failed, changed := 0, *known
		if changed.failed = id.failed; id.failed {
			failed = 1
		}
		known = &changed
		if id.functions != "[]" {
			b.addStatement(markFunctions, w.ID, w.Lease, failed, id.caller)
		}
	}
	if known != nil && *known == *id {
		return
	}
	functionsChanged := known == nil || known.functions != id.functions || known.began != id.began || known.caller != id.caller
	if functionsChanged {
		b.addStatement(forgetFunctions+`WHERE r.id = $1 AND r.lease = $2)`, w.ID, w.Lease)
	}
	b.addStatement(setIdentity+ifLease, w.ID, w.Lease, id.caller, id.key, id.chain, id.hash, id.functions, id.scope, id.began)
	if functionsChanged {
		b.addFunctions(w, id)
	}
}

// updateCosts changes only the costs of answers and the lease, and drops results.
func (b *batch) updateCosts(w *journal.Write) {
	query, args := countSegment(w, addCosts, addCosts+andCount, []any{w.ID, w.Lease, w.Tokens, w.Stored})
	condition := ifLease
	if w.Late {
		condition = ifAnyLease
	}
	if w.Release {
		query += andRelease
	}
	if w.DropResults && !w.Late {
		query += andDrop
	}
	b.addStatement(query+condition, args...)
}

// countSegment returns the beginning of a statement for the row of a run, and its arguments: query, or counting if the write adds a
// segment.
func countSegment(w *journal.Write, query, counting string, args []any) (string, []any) {
	switch {
	case w.Segment == nil:
		return query, args
	case w.Repeated:
		return query + fmt.Sprintf(andCountOnce, len(args)+1, len(args)+2), append(args, w.Segment.Lease, w.Segment.First)
	}
	return counting, args
}

func (b *batch) addSegment(w *journal.Write) {
	condition := ifLease
	if w.Late {
		condition = ifAnyLease
	}
	if s := w.Segment; s != nil && !isWholeRun(w) {
		results := storedResults(w)
		first := results[:min(len(results), pieceBytes)]
		b.addStatement(`INSERT INTO onecall_segments (run, lease, first_n, events, results, kept)
			SELECT n, $3, $4, $5, $6, $7 FROM onecall_runs`+condition+` ON CONFLICT (run, lease, first_n) DO NOTHING`,
			w.ID, w.Lease, s.Lease, s.First, notNull(s.Events), first, s.Retained)
		number := 0
		for piece := range slices.Chunk(results[len(first):], pieceBytes) {
			number++
			b.addStatement(`INSERT INTO onecall_pieces (run, lease, first_n, piece, results)
			SELECT n, $3, $4, $5, $6 FROM onecall_runs`+condition+` ON CONFLICT (run, lease, first_n, piece) DO NOTHING`,
				w.ID, w.Lease, s.Lease, s.First, number, piece)
		}
	}
	if w.DropResults && !w.Late && !w.New {
		ofRun := ` run = (SELECT n FROM onecall_runs` + condition + `)`
		b.addStatement(`UPDATE onecall_segments SET results = NULL WHERE results IS NOT NULL AND`+ofRun, w.ID, w.Lease)
		b.addStatement(`DELETE FROM onecall_pieces WHERE`+ofRun, w.ID, w.Lease)
	}
}

func notNull(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}
