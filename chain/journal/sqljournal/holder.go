package sqljournal

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/gofrs/flock"
)

// lockSuffix ends the names of files that stand for holders.
const lockSuffix = ".lock"

// lockPath is the file that stands for a holder.
func (e *sqliteEngine) lockPath(holder string) string { return e.path + "-" + holder + lockSuffix }

// hold locks this driver's file, unless that is done.
func (e *sqliteEngine) hold(holder string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	path := e.lockPath(holder)
	if e.lock != nil {
		if _, err := os.Stat(path); err == nil {
			return nil
		}
		e.lock.Close() // the file was removed: it stands for nobody now
		e.lock = nil
	}
	for {
		file := flock.New(path, flock.SetPermissions(0o600))
		if err := file.Lock(); err != nil {
			return err
		}
		// Who looks for files that nobody holds may have removed it before it was locked.
		if mine, err := file.Stat(); err == nil {
			if there, err := os.Stat(path); err == nil && os.SameFile(mine, there) {
				e.lock = file
				return nil
			}
		}
		file.Close()
	}
}

// alive reports whether a process has the lock of a holder's file. Those who ask share the lock, so none takes another for the
// holder.
func (e *sqliteEngine) alive(_ context.Context, _ queries, holder string) (bool, error) {
	file := flock.New(e.lockPath(holder), flock.SetFlag(os.O_RDONLY))
	defer file.Close()
	free, err := file.TryRLock()
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return !free, err
}

// sweep removes the files of holders that have gone.
func (e *sqliteEngine) sweep() {
	entries, _ := os.ReadDir(filepath.Dir(e.path))
	for _, entry := range entries {
		if name := entry.Name(); !strings.HasPrefix(name, filepath.Base(e.path)+"-") || !strings.HasSuffix(name, lockSuffix) {
			continue
		}
		path := filepath.Join(filepath.Dir(e.path), entry.Name())
		file := flock.New(path, flock.SetFlag(os.O_RDONLY))
		if free, err := file.TryRLock(); err == nil && free {
			os.Remove(path)
		}
		file.Close()
	}
}

func (e *sqliteEngine) close(db *database, _ string) {
	if db != nil {
		db.close()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.lock != nil {
		os.Remove(e.lock.Path())
		e.lock.Close()
		os.Remove(e.lock.Path()) // Windows removes no file that is open
		e.lock = nil
	}
}
