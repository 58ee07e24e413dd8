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
)

// OpenSQLite makes a driver over a SQLite file, which is made at the first use, with its folder, for this user alone. It fails
// if path is "". Any number of drivers and processes of one machine may use the file; a network file system cannot hold it.
func OpenSQLite(path string, o *Options) (*Driver, error) {
	if path == "" {
		return nil, fault.New(fault.BadRequest, "The journal needs the path of a file.")
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	return newDriver(&sqliteEngine{path: path, remote: onNetwork}, o)
}

type sqliteEngine struct {
	path   string
	remote func(folder string) bool

	mu   sync.Mutex
	lock *flock.Flock // of this driver's file; nil: there is none yet
}

// busyTimeout is how long a statement waits for other processes.
const busyTimeout = 5 * time.Second

// errNetwork tells that a file is on a network file system, whose locks and shared memory SQLite cannot rely on.
var errNetwork = errors.New("it is on a network file system")

func (e *sqliteEngine) open(ctx context.Context, holder string) (_ *database, err error) {
	if err := e.prepare(); err != nil {
		return nil, err
	}
	db := &database{dialect: inSQLite, alive: e.alive}
	// The file is used as a path of a URI: a plain name ends at a question mark.
	uri := url.URL{Scheme: "file", Path: filepath.ToSlash(e.path)}
	if !strings.HasPrefix(uri.Path, "/") {
		uri.Path = "/" + uri.Path // C:/folder
	}
	settings := fmt.Sprintf("?_pragma=busy_timeout(%d)&_pragma=synchronous(FULL)&_pragma=journal_size_limit(%d)",
		busyTimeout.Milliseconds(), maxLog)
	if db.write, err = sql.Open("sqlite", uri.String()+settings+"&_txlock=immediate"); err != nil {
		return nil, err
	}
	if db.read, err = sql.Open("sqlite", uri.String()+settings+"&_query_only=1"); err != nil {
		return nil, err
	}
	writer := &sqliteWriter{db: db}
	db.begin, db.tidy, db.close = writer.begin, e.tidy(db), func() {
		writer.close()
		db.read.Close()
		db.write.Close()
	}
	db.write.SetMaxOpenConns(1)
	db.read.SetMaxOpenConns(4)
	if err := e.setUp(ctx, db); err != nil {
		db.close()
		return nil, err
	}
	info, err := os.Stat(e.path)
	if err == nil {
		err = e.hold(holder)
	}
	if err != nil {
		db.close()
		return nil, err
	}
	db.moved = func() bool {
		now, err := os.Stat(e.path)
		return err != nil || !os.SameFile(info, now)
	}
	return db, nil
}

// maxLog is how large the log of the database stays at most, in bytes, while nothing is written.
const maxLog = 16 << 20

// prepare sees that the file is there, and is this user's alone.
func (e *sqliteEngine) prepare() error {
	if err := os.MkdirAll(filepath.Dir(e.path), 0o700); err != nil {
		return err
	}
	if e.remote(filepath.Dir(e.path)) {
		return errNetwork
	}
	file, err := os.OpenFile(e.path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	if info, err := file.Stat(); err == nil && info.Mode().Perm()&0o077 != 0 {
		_ = file.Chmod(0o600) // where it means something
	}
	return nil
}

// setUp makes the tables. The log is switched on behind SQLite's back of waiting for others, so it is tried until they are done.
func (e *sqliteEngine) setUp(ctx context.Context, db *database) error {
	for end := time.Now().Add(busyTimeout); ; {
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
	if _, err := db.version(ctx, db.write); err != nil {
		return err // what a newer version wrote is left alone
	}
	for _, setting := range []string{"PRAGMA auto_vacuum = INCREMENTAL", "PRAGMA journal_mode = WAL"} {
		if _, err := db.write.ExecContext(ctx, setting); err != nil {
			return err
		}
	}
	return db.migrate(ctx, db.write)
}

// tidy gives pages back to the disk where more than half of the file is free, and removes what dead holders left.
func (e *sqliteEngine) tidy(db *database) func(context.Context) error {
	return func(ctx context.Context) error {
		e.sweep()
		var pages, free int
		if err := db.write.QueryRowContext(ctx, "PRAGMA page_count").Scan(&pages); err != nil {
			return err
		}
		if err := db.write.QueryRowContext(ctx, "PRAGMA freelist_count").Scan(&free); err != nil {
			return err
		}
		for ; free > pages/2 && free > leastFree; free, pages = free-leastFree, pages-leastFree {
			if _, err := db.write.ExecContext(ctx, fmt.Sprintf("PRAGMA incremental_vacuum(%d)", leastFree)); err != nil {
				return err
			}
		}
		return nil
	}
}

// leastFree is how many pages are given back at once.
const leastFree = 1000

// extendedCode is the result code of an error of SQLite; 0: it is none.
func extendedCode(err error) int {
	var own *sqlite.Error
	if errors.As(err, &own) {
		return own.Code()
	}
	return 0
}

// sqliteCode is the code of the kind of error.
func sqliteCode(err error) int { return extendedCode(err) & 0xff }

func (e *sqliteEngine) again(error) bool { return false }

func (e *sqliteEngine) explain(err error) (message string, v verdict) {
	var newer newerError
	code, where := sqliteCode(err), "The journal "+e.path+" "
	switch {
	case errors.As(err, &newer):
		return where + newer.say() + ", or name another file.", broken
	case errors.Is(err, errNetwork):
		return where + "is on a network file system: name a file on a disk of this machine, or use PostgreSQL.", broken
	case code == sqlite3.SQLITE_BUSY, code == sqlite3.SQLITE_LOCKED, errors.Is(err, context.DeadlineExceeded):
		return where + "is locked by another program, or its disk is too slow: end that program, or name another file.", usable
	case code == sqlite3.SQLITE_FULL:
		return where + "cannot grow, since the disk is full: make room on it, or name a file on another disk.", usable
	case extendedCode(err) == sqlite3.SQLITE_IOERR_WRITE: // a quota, or a bound of this process
		return where + fmt.Sprintf("cannot be written (%v): make room for it, or name a file on another disk.", err), usable
	case code == sqlite3.SQLITE_CORRUPT, code == sqlite3.SQLITE_NOTADB, errors.Is(err, errDamaged):
		return where + "is damaged, or is no journal: move it away, and a new one is made.", broken
	case code == sqlite3.SQLITE_READONLY, code == sqlite3.SQLITE_CANTOPEN, code == sqlite3.SQLITE_PERM, errors.Is(err, fs.ErrPermission):
		return where + "cannot be written: see that this user may write to the file and its folder.", broken
	}
	return where + fmt.Sprintf("cannot be used (%v): see to the disk, or name another file.", err), broken
}
