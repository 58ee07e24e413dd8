package sqljournal

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/gofrs/flock"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/sqldb"
)

// OpenSQLite returns a driver for a SQLite file. It fails if path is "". The file and its folder are created at first use, for this user
// only. Any number of drivers and processes on one machine may share the file; it cannot be on a network file system.
func OpenSQLite(path string, o *Options) (*Driver, error) {
	if path == "" {
		return nil, fault.New(fault.BadRequest, "The journal needs the path of a file.")
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	e := &sqliteEngine{path: path, isRemote: onNetwork, elsewhere: "name another file"}
	if o != nil && o.Elsewhere != "" {
		e.elsewhere = o.Elsewhere
	}
	d, err := newDriver(e, o)
	if err == nil {
		e.patience = d.timeout / 2
	}
	return d, err
}

type sqliteEngine struct {
	path      string
	elsewhere string                   // see Options.Elsewhere
	isRemote  func(folder string) bool // onNetwork, except in tests

	patience time.Duration // how long a statement waits for other processes

	mu       sync.Mutex
	fileLock *flock.Flock // the lock on this driver's lock file; nil: not locked yet
}

// errNetwork reports a file on a network file system, whose locks and shared memory SQLite cannot rely on.
var errNetwork = errors.New("it is on a network file system")

func (e *sqliteEngine) open(ctx context.Context, holder string) (_ *database, err error) {
	if err := e.prepareFile(); err != nil {
		return nil, err
	}
	db := &database{Schema: inSQLite, alive: e.alive, versionEvery: 250 * time.Millisecond}
	db.version = "PRAGMA data_version" // on the connection that writes, it changes when others have written
	// The path is part of a URI, since a plain name would end at a question mark.
	uri := url.URL{Scheme: "file", Path: filepath.ToSlash(e.path)}
	if !strings.HasPrefix(uri.Path, "/") {
		uri.Path = "/" + uri.Path // C:/folder
	}
	settings := fmt.Sprintf("?_pragma=busy_timeout(%d)&_pragma=synchronous(FULL)&_pragma=journal_size_limit(%d)",
		e.patience.Milliseconds(), maxWAL)
	if db.write, err = sql.Open("sqlite", uri.String()+settings+"&_txlock=immediate"); err != nil {
		return nil, err
	}
	if db.read, err = sql.Open("sqlite", uri.String()+settings+"&_query_only=1"); err != nil {
		return nil, err
	}
	writer := &sqliteWriter{db: db}
	db.beginTx, db.cleanUp, db.close = writer.beginTx, e.cleanUp(db), func() {
		writer.close()
		db.read.Close()
		db.write.Close()
	}
	db.verify = func(ctx context.Context) error { return quickCheck(ctx, db.read) }
	db.write.SetMaxOpenConns(1)
	db.read.SetMaxOpenConns(4)
	if err := e.setUp(ctx, db); err != nil {
		db.close()
		return nil, err
	}
	info, err := os.Stat(e.path)
	if err == nil {
		err = e.lockFile(holder)
	}
	if err != nil {
		db.close()
		return nil, err
	}
	db.isMoved = func() bool {
		now, err := os.Stat(e.path)
		return err != nil || !os.SameFile(info, now)
	}
	return db, nil
}

// maxWAL is the maximum size in bytes of the write-ahead log while nothing is written.
const maxWAL = 16 << 20

// prepareFile creates the file, or makes it accessible to this user only.
func (e *sqliteEngine) prepareFile() error {
	if err := os.MkdirAll(filepath.Dir(e.path), 0o700); err != nil {
		return err
	}
	if e.isRemote(filepath.Dir(e.path)) {
		return errNetwork
	}
	file, err := os.OpenFile(e.path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	if info, err := file.Stat(); err == nil && info.Mode().Perm()&0o077 != 0 {
		_ = file.Chmod(0o600) // has an effect only where modes exist
	}
	return nil
}

// setUp creates the tables. Switching to WAL mode ignores the busy timeout, so setUp retries while others are busy.
func (e *sqliteEngine) setUp(ctx context.Context, db *database) error {
	for end := time.Now().Add(e.patience); ; {
		err := e.setUpOnce(ctx, db)
		if sqliteCode(err) != sqlite3.SQLITE_BUSY || time.Now().After(end) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (e *sqliteEngine) setUpOnce(ctx context.Context, db *database) error {
	if _, err := db.Version(ctx, db.write); err != nil {
		return err // do not change a database that a newer version wrote
	}
	for _, setting := range []string{"PRAGMA auto_vacuum = INCREMENTAL", "PRAGMA journal_mode = WAL"} {
		if _, err := db.write.ExecContext(ctx, setting); err != nil {
			return err
		}
	}
	return db.Migrate(ctx, db.write)
}

// cleanUp returns database.cleanUp. It shrinks the file if more than half of it is free, and removes lock files of dead holders.
func (e *sqliteEngine) cleanUp(db *database) func(context.Context) error {
	return func(ctx context.Context) error {
		e.removeDeadHolders()
		var pages, free int
		if err := db.write.QueryRowContext(ctx, "PRAGMA page_count").Scan(&pages); err != nil {
			return err
		}
		if err := db.write.QueryRowContext(ctx, "PRAGMA freelist_count").Scan(&free); err != nil {
			return err
		}
		for ; free > pages/2 && free > vacuumPages; free, pages = free-vacuumPages, pages-vacuumPages {
			if _, err := db.write.ExecContext(ctx, fmt.Sprintf("PRAGMA incremental_vacuum(%d)", vacuumPages)); err != nil {
				return err
			}
		}
		return nil
	}
}

// quickCheck fails if the structure of the file is damaged.
func quickCheck(ctx context.Context, db *sql.DB) error {
	var found string
	err := db.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&found)
	if err == nil && found != "ok" {
		err = fmt.Errorf("%w: %s", errDamaged, found)
	}
	return err
}

// vacuumPages is how many pages are freed at once.
const vacuumPages = 1000

// extendedCode returns the extended result code of a SQLite error, or 0.
func extendedCode(err error) int {
	var sqliteErr *sqlite.Error
	if errors.As(err, &sqliteErr) {
		return sqliteErr.Code()
	}
	return 0
}

// sqliteCode returns the primary result code.
func sqliteCode(err error) int { return extendedCode(err) & 0xff }

func (e *sqliteEngine) isRetryable(error) bool { return false }

func (e *sqliteEngine) explain(err error) (message string, effect sqldb.Effect) {
	var newer *sqldb.NewerVersionError
	code, subject := sqliteCode(err), "The journal "+e.path+" "
	switch {
	case errors.As(err, &newer):
		return subject + newer.Clause() + ", or " + e.elsewhere + ".", sqldb.MustReopen
	case errors.Is(err, errNetwork):
		return subject + "is on a network file system, and must be on a disk of this machine: " + e.elsewhere + ", or use PostgreSQL.", sqldb.MustReopen
	case code == sqlite3.SQLITE_BUSY, code == sqlite3.SQLITE_LOCKED, errors.Is(err, context.DeadlineExceeded):
		return subject + "is locked by another program, or its disk is too slow: end that program, or " + e.elsewhere + ".", sqldb.RetryNow
	case code == sqlite3.SQLITE_FULL:
		return subject + "cannot grow, since the disk is full: make room on it, or have it on another disk: " + e.elsewhere + ".", sqldb.RetryNow
	case extendedCode(err) == sqlite3.SQLITE_IOERR_WRITE: // a quota, or a limit of this process
		return subject + fmt.Sprintf("cannot be written (%v): make room for it, or have it on another disk: %s.", err, e.elsewhere), sqldb.RetryNow
	case code == sqlite3.SQLITE_CORRUPT, code == sqlite3.SQLITE_NOTADB, errors.Is(err, errDamaged):
		return subject + "is damaged, or is not a journal: " + e.moveAway(), sqldb.MustReopen
	case e.isFolder():
		return subject + "is a folder, and must be a file: move it away, or " + e.elsewhere + ".", sqldb.MustReopen
	case code == sqlite3.SQLITE_READONLY, code == sqlite3.SQLITE_CANTOPEN, code == sqlite3.SQLITE_PERM, errors.Is(err, fs.ErrPermission):
		return subject + "cannot be written: check that this user may write to the file and its folder.", sqldb.MustReopen
	}
	return subject + fmt.Sprintf("cannot be used (%v): check the disk, or %s.", err, e.elsewhere), sqldb.MustReopen
}

// moveAway ends a message about a file that can never be used again.
func (e *sqliteEngine) moveAway() string {
	return "move it away, with the files beside it whose names begin with its own, and a new one is made. The runs in it can then no longer be " +
		"shown, resumed or undone. Or " + e.elsewhere + "."
}

// isFolder reports whether a folder is where the file should be.
func (e *sqliteEngine) isFolder() bool {
	info, err := os.Stat(e.path)
	return err == nil && info.IsDir()
}
