package sqljournal

import (
	"context"
	"time"
)

// newestRows identifies the runs that were written last, by all processes. The clocks of processes may differ, so it has more than the last
// one.
const newestRows = `SELECT COALESCE(md5(string_agg(concat_ws(' ', n, last_at, lease, segments, status, tokens, holder), ',')), 'none')
	FROM (SELECT n, last_at, lease, segments, status, tokens, holder FROM onecall_runs ORDER BY last_at DESC, n DESC LIMIT 100) r`

// Version implements journal.Driver.
func (d *Driver) Version(ctx context.Context) (version string, again time.Duration, err error) {
	err = d.withDatabase(ctx, d.timeout, func(ctx context.Context, db *database) error {
		again = db.versionEvery
		return db.write.QueryRowContext(ctx, db.version).Scan(&version)
	})
	return version, again, err
}
