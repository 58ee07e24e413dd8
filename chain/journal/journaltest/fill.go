package journaltest

import (
	"database/sql"
	"fmt"
	"testing"
)

// Fill writes many runs to a journal in SQLite, whose file a driver has made, by SQL: a hundredth failed, one in 100,000 waits, and one in
// 100,000 called rare.call. They began in scope, have no events, and do not expire.
func Fill(t testing.TB, path, scope string, runs int) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=synchronous(OFF)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, query := range []string{
		fmt.Sprintf(`WITH RECURSIVE i(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM i WHERE n < %d)
		INSERT INTO onecall_runs (id, lease, holder, caller, run_key, chain, hash, functions, began, status, code, last_at, expires,
			steps, calls, reused, writes, took,
			tokens, kept)
		SELECT printf('run_%%026d', n * 7919 %% 1000003), 1, '', 'token:' || (n %% 1000), '',
			CASE WHEN n %% 10 = 0 THEN 'chain ' || (n / 10 %% 10) ELSE '' END,
			'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa',
			CASE WHEN n %% 100000 = 100 THEN '["fs.read","rare.call"]' WHEN n %% 2 = 0 THEN '["fs.read","fs.list"]' ELSE '["memory.read"]' END,
			1790000000000000 + n * 86400,
			CASE WHEN n %% 100000 = 50 THEN 'waiting' WHEN n %% 100 = 7 OR n = 100 THEN 'failed' ELSE 'ok' END, '', 1790000000000000 + n * 86400,
			9000000000000000, 10, 10, 0, 0, 3000, 100, 5000 FROM i`, runs-1),
		`INSERT INTO onecall_functions (fn, began, run, caller, failed) SELECT f.value, r.began, r.n, r.caller, r.status <> 'ok'
		FROM onecall_runs r, json_each(r.functions) f`,
		`WITH RECURSIVE d(d) AS (SELECT 1 UNION ALL SELECT d + 1 FROM d WHERE d < 90), c(c) AS (SELECT 0 UNION ALL SELECT c + 1 FROM c WHERE c < 9),
			f(f) AS (SELECT 0 UNION ALL SELECT f + 1 FROM f WHERE f < 9)
		INSERT INTO onecall_days (day, caller, chain, fn, counted, failures, calls, tokens, kept, times)
			SELECT date('2026-01-01', d || ' days'), 'token:' || c, '', 'function ' || f, 11, 1, 110, 1000, 2000,
			x'4003010201050201010101010101010101010101010203010201020102010201' FROM d, c, f`,
		fmt.Sprintf(`UPDATE onecall_runs SET scope = '%s'`, scope),
	} {
		if _, err := db.Exec(query); err != nil {
			t.Fatal(err)
		}
	}
}
