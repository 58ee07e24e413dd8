package sqljournal

import (
	"strings"

	"github.com/onecall-mcp/onecall/internal/sqldb"
)

// migrations upgrade the tables, each by one version: to change them, add one. Other processes wait meanwhile, so none may read or write
// every run: the segments of older runs are not counted, and their number stays negative (journal.Record.Written), as does the lease of
// their hand-over (journal.Row); onecall_functions learns of them afterwards (fill). All SQL of this package is written for PostgreSQL;
// inSQLite translates it.
var migrations = []string{`
CREATE TABLE onecall_runs (
	n BIGSERIAL PRIMARY KEY, id TEXT COLLATE "C" NOT NULL UNIQUE, lease BIGINT NOT NULL, holder TEXT NOT NULL,
	caller TEXT NOT NULL, run_key TEXT NOT NULL, chain TEXT NOT NULL, hash TEXT NOT NULL, functions JSON NOT NULL, began BIGINT NOT NULL,
	status TEXT NOT NULL, code TEXT NOT NULL, last_at BIGINT NOT NULL, expires BIGINT NOT NULL, steps BIGINT NOT NULL, calls BIGINT NOT NULL,
	reused BIGINT NOT NULL, writes BIGINT NOT NULL, took BIGINT NOT NULL, tokens BIGINT NOT NULL, kept BIGINT NOT NULL);
CREATE INDEX onecall_runs_began ON onecall_runs (began, n);
CREATE INDEX onecall_runs_caller ON onecall_runs (caller, began, n);
CREATE INDEX onecall_runs_expires ON onecall_runs (expires, n);
CREATE UNIQUE INDEX onecall_runs_key ON onecall_runs (caller, run_key) WHERE run_key <> '';
CREATE INDEX onecall_runs_chain ON onecall_runs (chain, began, n) WHERE chain <> '';
CREATE INDEX onecall_runs_status ON onecall_runs (status, began, n) WHERE status <> 'ok';
CREATE TABLE onecall_functions (fn TEXT NOT NULL, began BIGINT NOT NULL, run BIGINT NOT NULL, PRIMARY KEY (fn, began, run)) WITHOUT ROWID;
CREATE TABLE onecall_segments (run BIGINT NOT NULL, lease BIGINT NOT NULL, first_n BIGINT NOT NULL, events BYTEA NOT NULL,
	results BYTEA, kept BYTEA, PRIMARY KEY (run, lease, first_n));
CREATE TABLE onecall_days (day TEXT NOT NULL, caller TEXT NOT NULL, chain TEXT NOT NULL, fn TEXT NOT NULL,
	counted BIGINT NOT NULL, failures BIGINT NOT NULL, calls BIGINT NOT NULL, tokens BIGINT NOT NULL, kept BIGINT NOT NULL,
	times BYTEA NOT NULL, PRIMARY KEY (day, caller, chain, fn)) WITHOUT ROWID;
CREATE TABLE onecall_holders (id TEXT PRIMARY KEY, live_until TIMESTAMPTZ NOT NULL);
`, `
ALTER TABLE onecall_runs ADD COLUMN first_events BYTEA;
ALTER TABLE onecall_runs ADD COLUMN first_results BYTEA;
ALTER TABLE onecall_runs ADD COLUMN first_kept BYTEA;
`, `
ALTER TABLE onecall_runs ADD COLUMN parent TEXT NOT NULL DEFAULT '';
ALTER TABLE onecall_runs ADD COLUMN batch BIGINT NOT NULL DEFAULT 0;
CREATE INDEX onecall_runs_parent ON onecall_runs (parent, began, n);
CREATE INDEX onecall_runs_parts ON onecall_runs (parent, began, n) WHERE parent <> '' AND status <> 'ok';
`, `
ALTER TABLE onecall_runs ADD COLUMN segments BIGINT NOT NULL DEFAULT -1000000000;
`, `
ALTER TABLE onecall_runs ADD COLUMN handover_lease BIGINT NOT NULL DEFAULT -1;
ALTER TABLE onecall_runs ADD COLUMN last_lease BIGINT NOT NULL DEFAULT 0;
ALTER TABLE onecall_runs ADD COLUMN scope TEXT NOT NULL DEFAULT '';
`, `
ALTER TABLE onecall_runs ADD COLUMN undos BIGINT NOT NULL DEFAULT 0;
`, `
CREATE TABLE onecall_state_owners (owner TEXT COLLATE "C" PRIMARY KEY, version BIGINT NOT NULL, bytes BIGINT NOT NULL) WITHOUT ROWID;
CREATE TABLE onecall_state (owner TEXT COLLATE "C" NOT NULL, space TEXT COLLATE "C" NOT NULL, name TEXT COLLATE "C" NOT NULL,
	version BIGINT NOT NULL, expires BIGINT NOT NULL, size BIGINT NOT NULL, value BYTEA NOT NULL, PRIMARY KEY (owner, space, name));
CREATE INDEX onecall_state_expires ON onecall_state (expires);
`, `
ALTER TABLE onecall_functions ADD COLUMN caller TEXT;
ALTER TABLE onecall_functions ADD COLUMN failed BIGINT NOT NULL DEFAULT 0;
CREATE INDEX onecall_functions_caller ON onecall_functions (fn, caller, began, run) WHERE caller IS NOT NULL;
CREATE INDEX onecall_functions_failed ON onecall_functions (fn, began, run, failed) WHERE failed <> 0;
CREATE INDEX onecall_functions_both ON onecall_functions (fn, caller, began, run, failed) WHERE failed <> 0;
CREATE TABLE onecall_filling (fn TEXT NOT NULL, began BIGINT NOT NULL, run BIGINT NOT NULL);
INSERT INTO onecall_filling SELECT '', 0, 0 WHERE EXISTS (SELECT 1 FROM onecall_functions);
`, `
ALTER TABLE onecall_runs ADD COLUMN undo_left BIGINT NOT NULL DEFAULT 0;
`, `
CREATE INDEX onecall_functions_unfilled ON onecall_functions (run) WHERE caller IS NULL;
DROP TABLE onecall_filling;
`, lastIndex, `
CREATE TABLE onecall_pieces (run BIGINT NOT NULL, lease BIGINT NOT NULL, first_n BIGINT NOT NULL, piece BIGINT NOT NULL,
	results BYTEA NOT NULL, PRIMARY KEY (run, lease, first_n, piece));
`, endPieces, `
ALTER TABLE onecall_days ADD COLUMN sizes BYTEA NOT NULL DEFAULT '';
`}

// endPieces has a run's row take its pieces with it. An older version that removes the row knows no pieces, and SQLite may give the number
// of the run to another one. The statement of SQLite has a semicolon inside, so it takes the place of this one after migrations are split.
const endPieces = `ALTER TABLE onecall_pieces ADD FOREIGN KEY (run) REFERENCES onecall_runs (n) ON DELETE CASCADE NOT VALID`

// lastIndex is for newestRows. SQLite does without: it tells itself whether others have written.
const lastIndex = `CREATE INDEX onecall_runs_last ON onecall_runs (last_at, n);`

// EACH stands for the function that returns the elements of a JSON array as rows, in its column value; CLOCK for the time of the database
// in microseconds since 1970.
var (
	inPostgres = schemaIn(sqldb.Postgres, "EACH(", "json_array_elements_text(", " WITHOUT ROWID", "",
		"CLOCK", "CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS BIGINT)")
	inSQLite = schemaIn(sqldb.Dialect{
		CountTables: `SELECT count(*) FROM sqlite_schema WHERE name = $1`,
		Lock:        `SELECT 1`, // every writing transaction is exclusive
	}, endPieces, `CREATE TRIGGER onecall_end_pieces AFTER DELETE ON onecall_runs BEGIN DELETE FROM onecall_pieces WHERE run = OLD.n; END`,
		"EACH(", "json_each(", "CLOCK", "CAST(unixepoch('subsec') * 1000000 AS INTEGER)", " FOR UPDATE SKIP LOCKED", "", " FOR UPDATE", "", lastIndex, "",
		"BIGSERIAL", "INTEGER", "BIGINT", "INTEGER", "BYTEA", "BLOB", "JSON", "TEXT", ` COLLATE "C"`, "", "TIMESTAMPTZ", "TEXT")
)

// schemaIn returns the tables in a dialect, which writes for each odd one of words the next.
func schemaIn(d sqldb.Dialect, words ...string) *sqldb.Schema {
	d.Replacer = strings.NewReplacer(words...)
	return &sqldb.Schema{Dialect: &d, Meta: "onecall_meta", Migrations: migrations}
}
