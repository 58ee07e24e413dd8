// Package sqldb has what the drivers of SQL databases share: tables with versions, and a PostgreSQL server's address, connections and
// errors.
package sqldb

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
)

// Schema is a set of tables with a version. Several schemas may share a database.
type Schema struct {
	*Dialect
	Meta       string   // the name of the table that holds the version
	Migrations []string // statements that upgrade the tables, each by one version
}

// Dialect is how a database says what a Schema needs.
type Dialect struct {
	Replacer *strings.Replacer // translates SQL for PostgreSQL

	// CountTables is the query that counts the tables with a name.
	CountTables string

	// Lock is the statement that keeps other processes from migrating the database until the transaction ends.
	Lock string
}

// Postgres is the dialect of PostgreSQL.
var Postgres = Dialect{
	Replacer:    strings.NewReplacer(),
	CountTables: `SELECT count(*) FROM pg_catalog.pg_class WHERE oid = to_regclass($1)`,
	Lock:        `SELECT pg_advisory_xact_lock(1869505905)`, // an arbitrary number, the same in all processes
}

// SQL translates a query.
func (d *Dialect) SQL(query string) string { return d.Replacer.Replace(query) }

// NewerVersionError reports that a newer version of onecall wrote the tables.
type NewerVersionError struct{ Found, Known int }

func (e *NewerVersionError) Error() string {
	return fmt.Sprintf("its tables are of version %d", e.Found)
}

// Clause returns the error as part of a sentence.
func (e *NewerVersionError) Clause() string {
	return fmt.Sprintf("was written by a newer version of onecall (its tables are of version %d, not %d): update onecall", e.Found, e.Known)
}

// Current returns the version of the tables that this program writes.
func (s *Schema) Current() int { return len(s.Migrations) }

// Version returns the version of the tables, or 0 if there are none. It fails with a NewerVersionError if the version is newer than the
// current one.
func (s *Schema) Version(ctx context.Context, db interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}) (version int, err error) {
	var tables int
	if err := db.QueryRowContext(ctx, s.CountTables, s.Meta).Scan(&tables); err != nil || tables == 0 {
		return 0, err
	}
	if err := db.QueryRowContext(ctx, `SELECT version FROM `+s.Meta).Scan(&version); err != nil {
		return 0, err
	}
	if version > s.Current() {
		return version, &NewerVersionError{version, s.Current()}
	}
	return version, nil
}

// Migrate upgrades the tables to the current version, in one transaction.
func (s *Schema) Migrate(ctx context.Context, db *sql.DB) error {
	if version, err := s.Version(ctx, db); err != nil || version == s.Current() {
		return err
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // it is committed, or the error is known
	if _, err := tx.ExecContext(ctx, s.Lock); err != nil {
		return err
	}
	version, err := s.Version(ctx, tx) // another process may have done it meanwhile
	if err != nil || version == s.Current() {
		return err
	}
	steps := s.Migrations[version:]
	if version == 0 {
		steps = append([]string{fmt.Sprintf(`CREATE TABLE %s (version BIGINT NOT NULL); INSERT INTO %s VALUES (0)`, s.Meta, s.Meta)}, steps...)
	}
	for _, step := range append(steps, fmt.Sprintf(`UPDATE %s SET version = %d`, s.Meta, s.Current())) {
		for statement := range strings.SplitSeq(step, ";") {
			if strings.TrimSpace(statement) == "" {
				continue
			}
			if _, err := tx.ExecContext(ctx, s.SQL(statement)); err != nil {
				return err
			}
		}
	}
	return tx.Commit()
}
