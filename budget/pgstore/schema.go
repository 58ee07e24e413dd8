package pgstore

import (
	"github.com/onecall-mcp/onecall/internal/sqldb"
)

// schema are the tables. Every fetch updates the row of a result, so that table is narrow. The tables are logged: those that are not are
// emptied when the server recovers from a crash or a replica of it takes over.
var schema = &sqldb.Schema{Dialect: &sqldb.Postgres, Meta: "onecall_results_meta", Migrations: []string{`
CREATE TABLE onecall_results (
	key BYTEA PRIMARY KEY, version BIGINT NOT NULL, owner BYTEA NOT NULL, base BYTEA NOT NULL,
	created TIMESTAMPTZ NOT NULL, expires TIMESTAMPTZ NOT NULL, size BIGINT NOT NULL, stored BIGINT NOT NULL);
CREATE INDEX onecall_results_base ON onecall_results (base, expires);
CREATE TABLE onecall_result_parts (
	key BYTEA NOT NULL REFERENCES onecall_results ON DELETE CASCADE, n INTEGER NOT NULL, bytes BYTEA NOT NULL, PRIMARY KEY (key, n))
	WITH (autovacuum_vacuum_scale_factor = 0.02, toast.autovacuum_vacuum_scale_factor = 0.02);
ALTER TABLE onecall_result_parts ALTER COLUMN bytes SET STORAGE EXTERNAL;
CREATE TABLE onecall_result_owners (base BYTEA PRIMARY KEY, bytes BIGINT NOT NULL);
`}}

// forget returns a statement that deletes the results of a condition with their parts, and subtracts them from their owners' sums.
func forget(condition string) string {
	return `WITH gone AS (DELETE FROM onecall_results WHERE ` + condition + ` RETURNING base, stored),
	sums AS (SELECT base, sum(stored)::bigint AS bytes FROM gone GROUP BY base)
	UPDATE onecall_result_owners o SET bytes = o.bytes - sums.bytes FROM sums WHERE o.base = sums.base`
}

// serverTime returns the beginning of a statement whose table drift has in d what must be added to times of the caller, whose clock shows
// $1. Clocks that differ by at most $2 seconds count as equal.
const serverTime = `WITH clock AS (SELECT extract(epoch FROM clock_timestamp() - $1::timestamptz)::float8 AS ahead),
	drift AS (SELECT make_interval(secs => CASE WHEN abs(ahead) <= $2 THEN 0 ELSE ahead END) AS d FROM clock) `

var (
	lockKey   = `SELECT pg_advisory_xact_lock($1)`
	durable   = `SELECT set_config('synchronous_commit', 'on', true)` // until the transaction ends
	forgetKey = forget(`key = $1`)
	insert    = serverTime + `INSERT INTO onecall_results (key, version, owner, base, created, expires, size, stored)
	SELECT $3, $4, $5, $6, $7::timestamptz + d, $8::timestamptz + d, $9, $10 FROM drift`
	insertPart = `INSERT INTO onecall_result_parts (key, n, bytes) VALUES ($1, $2, $3)`
	addToOwner = `INSERT INTO onecall_result_owners AS o (base, bytes) VALUES ($1, $2)
	ON CONFLICT (base) DO UPDATE SET bytes = o.bytes + excluded.bytes`
	sumOfAll = `SELECT coalesce(sum(bytes), 0)::bigint FROM onecall_result_owners`

	extend = serverTime + `UPDATE onecall_results SET expires = $4::timestamptz + d FROM drift WHERE key = $3 AND expires > clock_timestamp()`

	// selectHead returns a small value with its head, which saves a round trip.
	selectHead = `SELECT version, owner, created, expires, size, stored, clock_timestamp(),
	CASE WHEN stored <= $2 THEN (SELECT bytes FROM onecall_result_parts p WHERE p.key = r.key AND n = 0) END
	FROM onecall_results r WHERE key = $1 AND expires > clock_timestamp()`
	// selectParts is one statement, so it sees all parts of one version or none.
	selectParts = `SELECT p.bytes FROM onecall_results r JOIN onecall_result_parts p ON p.key = r.key
	WHERE r.key = $1 AND r.version = $2 ORDER BY p.n`

	// Rows that others are changing are left to the next time.
	forgetExpired = forget(`key IN (SELECT r.key FROM onecall_result_owners o JOIN onecall_results r ON r.base = o.base
	WHERE r.expires <= clock_timestamp() FOR UPDATE OF r SKIP LOCKED)`)
	forgetOwners = `DELETE FROM onecall_result_owners WHERE bytes <= 0`
	selectOwners = `SELECT base, bytes FROM onecall_result_owners`
	// selectOldest returns results of an owner except one, those that expire first, which are the least recently used.
	selectOldest = `SELECT key, stored FROM onecall_results WHERE base = $1 AND key <> $2 ORDER BY expires LIMIT $3
	FOR UPDATE SKIP LOCKED`
	forgetKeys = forget(`key = ANY($1)`)
	lockOwner  = `SELECT 1 FROM onecall_result_owners WHERE base = $1 FOR UPDATE`
	countOwner = `UPDATE onecall_result_owners SET bytes = (SELECT coalesce(sum(stored), 0)::bigint FROM onecall_results WHERE base = $1)
	WHERE base = $1 RETURNING bytes`
	hasOthers = `SELECT EXISTS (SELECT 1 FROM onecall_result_owners WHERE base <> $1 AND bytes > 0)`
)
