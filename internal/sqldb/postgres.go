package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/onecall-mcp/onecall/fault"
)

const connectTimeout = 5 * time.Second

// ParsePostgres returns the settings of a PostgreSQL database: a URL or keyword list of libpq. whose begins the fault for an address that
// is "" or cannot be parsed: "The journal's". No error contains the password.
func ParsePostgres(address, whose string) (*pgx.ConnConfig, error) {
	config, err := pgx.ParseConfig(address)
	if err != nil || address == "" {
		return nil, fault.New(fault.BadRequest,
			"%s address is not that of a PostgreSQL database: write it as postgres://user:password@host:5432/database.", whose)
	}
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = connectTimeout
	}
	return config, nil
}

// OpenPool returns at most n connections to a PostgreSQL database. It does not connect.
func OpenPool(config *pgx.ConnConfig, n int) *sql.DB {
	pool := stdlib.OpenDB(*config)
	pool.SetMaxOpenConns(n)
	pool.SetMaxIdleConns(n)
	pool.SetConnMaxIdleTime(5 * time.Minute)
	return pool
}

// Effect says how to continue with a database after a failure.
type Effect int

// The effects of a failure.
const (
	RetryNow   Effect = iota // the next call may use the database at once
	RetrySoon                // calls may use the database after a while
	MustReopen               // the database must be opened again, after a while
)

// PostgreSQL's error codes and classes (its manual, appendix A).
const (
	undefinedTable  = "42P01"
	undefinedSchema = "3F000"
	readOnly        = "25006"
	diskFull        = "53100"
	noPrivilege     = "42501"
	serialization   = "40001"
	deadlock        = "40P01"
	classAccess     = "28"
	classResources  = "53"
	classEnd        = "57" // the server or an administrator ended the connection
)

func postgresCode(err error) string {
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) {
		return pgErr.Code
	}
	return ""
}

// IsConflict reports whether a transaction failed only because of another one, and did nothing.
func IsConflict(err error) bool {
	code := postgresCode(err)
	return code == serialization || code == deadlock
}

// LacksTables reports whether the database does not have the tables.
func LacksTables(err error) bool {
	code := postgresCode(err)
	return code == undefinedTable || code == undefinedSchema
}

// Explain says what an error of a PostgreSQL database means, as the rest of a sentence that begins with the database, and what helps.
func Explain(config *pgx.ConnConfig, err error) (clause string, effect Effect) {
	var newer *NewerVersionError
	code := postgresCode(err)
	switch {
	case errors.As(err, &newer):
		return newer.Clause() + ", or name another database.", MustReopen
	case LacksTables(err):
		return "has lost its tables, which are created again: if this message returns, something removes them.", MustReopen
	case code == diskFull:
		return "cannot grow, since its disk is full: make room there.", RetryNow
	case code == readOnly:
		return "is read-only: name the primary server.", MustReopen
	case code == noPrivilege:
		return "does not let this user write (" + scrub(config, err) + "): allow the user to write and to create tables.", MustReopen
	case strings.HasPrefix(code, classAccess):
		return "refuses the login: check the user and password.", RetrySoon
	case strings.HasPrefix(code, classResources), strings.HasPrefix(code, classEnd), code == "":
		return "does not answer (" + scrub(config, err) + "): check that the server runs and can be reached.", RetrySoon
	}
	return "refuses the work (" + scrub(config, err) + "): its log says why.", RetryNow
}

// Subject names a database in messages. whose is its use: "The journal's".
func Subject(config *pgx.ConnConfig, whose string) string {
	return fmt.Sprintf("%s database %q at %s", whose, config.Database, config.Host)
}

// scrub returns the text of an error without the password.
func scrub(config *pgx.ConnConfig, err error) string {
	text := err.Error()
	if config.Password != "" {
		text = strings.ReplaceAll(text, config.Password, "xxxxx")
	}
	return text
}

// OnConnection calls f with a connection of a pool of OpenPool. A connection that f closed is not used again.
func OnConnection(ctx context.Context, pool *sql.DB, f func(*pgx.Conn) error) error {
	conn, err := pool.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	return conn.Raw(func(on any) error { return f(on.(*stdlib.Conn).Conn()) })
}
