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

// lockSuffix ends the names of lock files.
const lockSuffix = ".lock"

// lockPath returns the lock file of a holder.
func (e *sqliteEngine) lockPath(holder string) string { return e.path + "-" + holder + lockSuffix }

// lockFile locks this driver's lock file, unless the driver has locked it already.
func (e *sqliteEngine) lockFile(holder string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	path := e.lockPath(holder)
	if e.fileLock != nil {
		if _, err := os.Stat(path); err == nil {
			return nil
		}
		e.fileLock.Close() // the file was removed, so its lock means nothing
		e.fileLock = nil
	}
	for {
		file := flock.New(path, flock.SetPermissions(0o600))
		if err := file.Lock(); err != nil {
			return err
		}
		// removeDeadHolders of another process may have removed the file before it was locked.
		if locked, err := file.Stat(); err == nil {
			if current, err := os.Stat(path); err == nil && os.SameFile(locked, current) {
				e.fileLock = file
				return nil
			}
		}
		file.Close()
	}
}

// alive reports whether a process has locked a holder's file. The check shares the lock, so that one check does not see another as the
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

// removeDeadHolders removes lock files that no process has locked.
func (e *sqliteEngine) removeDeadHolders() {
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
	if e.fileLock != nil {
		os.Remove(e.fileLock.Path())
		e.fileLock.Close()
		os.Remove(e.fileLock.Path()) // Windows does not remove open files
		e.fileLock = nil
	}
}
