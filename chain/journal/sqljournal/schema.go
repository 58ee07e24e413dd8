package sqljournal

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
)

// schemaVersion is the version of the tables that this package writes. To change them, add a migration.
var schemaVersion = len(migrations)

// migrations upgrade the tables, each by one version. Other processes wait meanwhile, so none may read or write every run: the segments of
// older runs are not counted, and their number stays negative (journal.Record.Written). All SQL of this package is written for PostgreSQL; inSQLite translates it.
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
`}

// dialect translates SQL for a database.
type dialect struct {
	replacer *strings.Replacer
	// countTables is the query that counts the tables with a name.
	countTables string
	// lock is the statement that keeps other processes from migrating the database until the transaction ends.
	lock string
}

// EACH stands for the function that returns the elements of a JSON array as rows, in its column value.
var (
	inPostgres = &dialect{
		replacer:    strings.NewReplacer("EACH(", "json_array_elements_text(", " WITHOUT ROWID", ""),
		countTables: `SELECT count(*) FROM pg_catalog.pg_class WHERE oid = to_regclass($1)`,
		lock:        `SELECT pg_advisory_xact_lock(1869505905)`, // an arbitrary number, the same in all processes
	}
	inSQLite = &dialect{
		replacer: strings.NewReplacer("EACH(", "json_each(", " FOR UPDATE SKIP LOCKED", "", " FOR UPDATE", "",
			"BIGSERIAL", "INTEGER", "BIGINT", "INTEGER", "BYTEA", "BLOB", "JSON", "TEXT", ` COLLATE "C"`, "", "TIMESTAMPTZ", "TEXT"),
		countTables: `SELECT count(*) FROM sqlite_schema WHERE name = $1`,
		lock:        `SELECT 1`, // every writing transaction is exclusive
	}
)

// sql translates a query.
func (d *dialect) sql(query string) string { return d.replacer.Replace(query) }

// newerVersionError reports that a newer version of onecall wrote the database.
type newerVersionError int

func (e newerVersionError) Error() string { return fmt.Sprintf("its tables are of version %d", int(e)) }

// clause returns the error as part of a sentence.
func (e newerVersionError) clause() string {
	return fmt.Sprintf("was written by a newer version of onecall (its tables are of version %d, not %d): update onecall",
		int(e), schemaVersion)
}

// version returns the version of the tables, or 0 if there are none. It fails if the version is newer than schemaVersion.
func (d *dialect) version(ctx context.Context, db interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}) (version int, err error) {
	var tables int
	if err := db.QueryRowContext(ctx, d.sql(d.countTables), "onecall_meta").Scan(&tables); err != nil || tables == 0 {
		return 0, err
	}
	if err := db.QueryRowContext(ctx, `SELECT version FROM onecall_meta`).Scan(&version); err != nil {
		return 0, err
	}
	if version > schemaVersion {
		return version, newerVersionError(version)
	}
	return version, nil
}

// migrate upgrades the tables to schemaVersion, in one transaction.
func (d *dialect) migrate(ctx context.Context, db *sql.DB) error {
	if version, err := d.version(ctx, db); err != nil || version == schemaVersion {
		return err
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // it is committed, or the error is known
	if _, err := tx.ExecContext(ctx, d.lock); err != nil {
		return err
	}
	version, err := d.version(ctx, tx) // another process may have done it meanwhile
	if err != nil || version == schemaVersion {
		return err
	}
	steps := migrations[version:]
	if version == 0 {
		steps = append([]string{`CREATE TABLE onecall_meta (version BIGINT NOT NULL); INSERT INTO onecall_meta VALUES (0)`}, steps...)
	}
	for _, step := range append(steps, fmt.Sprintf(`UPDATE onecall_meta SET version = %d`, schemaVersion)) {
		for statement := range strings.SplitSeq(step, ";") {
			if strings.TrimSpace(statement) == "" {
				continue
			}
			if _, err := tx.ExecContext(ctx, d.sql(statement)); err != nil {
				return err
			}
		}
	}
	return tx.Commit()
}
