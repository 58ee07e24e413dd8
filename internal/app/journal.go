package app

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/chain/journal/sqljournal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/config"
	"github.com/onecall-mcp/onecall/internal/textfile"
)

// defaultDenial is how long a denial holds for later runs if the configuration does not say it.
const defaultDenial = 10 * time.Minute

// openJournal opens the journal of runs: a file in the user's state folder, a server, or memory. Apps with the same settings share one
// journal. A replay, and a process whose runs are not to be recorded, keep theirs in memory. The result is nil without an error if the
// journal is off.
func (a *App) openJournal(c *config.Config) (*journal.Journal, error) {
	store := config.Or(c.Journal.Store, "sqlite")
	if a.cassette != nil || a.process.Unrecorded {
		store = "memory"
	}
	if store == "off" {
		return nil, nil
	}
	keep := config.Or(c.Journal.Keep, journal.DefaultKeep)
	values, remember := config.Or(c.Journal.Values, false), config.Or(c.Approvals.Remember, defaultDenial)
	id := fmt.Sprint("journal ", store, " ", keep, " ", values, " ", remember, " ", fingerprint([]string{config.Or(c.Journal.Key, "")}))
	j, release, err := acquire(&a.process.pool, id, func() (*journal.Journal, error) {
		o := &journal.Options{Keep: keep, Values: values, Remember: remember, Shared: anonymous, Warn: a.process.warnJournal,
			Estimate: a.estimate, Redact: a.process.Redactor.Text}
		driver, err := a.openJournalDriver(store, []byte(config.Or(c.Journal.Key, "")), o)
		if err != nil {
			return nil, err
		}
		return journal.New(driver, o)
	})
	if err == nil {
		a.closers = append(a.closers, closer(release))
	}
	return j, err
}

// Scope returns the path that separates the runs of this configuration from others in the journal, which all configurations of a user
// share. It is "" without a configuration file, and for a journal on a server: replicas may have their files anywhere.
func (a *App) Scope() string {
	if where := config.Or(a.config.Journal.Store, "sqlite"); a.config.Path == "" || where != "sqlite" && where != "memory" {
		return ""
	}
	path, err := filepath.Abs(a.config.Path)
	if err != nil {
		return a.config.Path
	}
	// Only the folder is resolved: the target of a linked file, as in a ConfigMap, changes with its content.
	if folder, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		path = filepath.Join(folder, filepath.Base(path))
	}
	return path
}

// ShowsValues reports whether arguments and results of runs may be shown.
func (a *App) ShowsValues() bool { return config.Or(a.config.Journal.Values, false) }

// maxEstimated is the number of bytes of a result whose tokens are counted.
const maxEstimated = 4 << 10

// estimate estimates the tokens of a result by counting those of its beginning.
func (a *App) estimate(result []byte) int {
	prefix := result[:min(len(result), maxEstimated)]
	return a.Counter.Count(prefix, -1) * len(result) / max(len(prefix), 1)
}

// warnJournal reports a failure of the journal.
func (p *process) warnJournal(err error) {
	f, ok := fault.As(err)
	if !ok {
		f = fault.New(fault.Unavailable, "%v", err)
	}
	warning := *f
	warning.Message = "the journal cannot be written, and calls that write are refused until it can: " + f.Message
	p.warnRedacted(&warning)
}

// openJournalDriver opens the driver of a journal and sets what o says of the journal's key and place. key is the configured key: only a
// journal on a server has one.
func (a *App) openJournalDriver(where string, key []byte, o *journal.Options) (journal.Driver, error) {
	switch where {
	case "memory":
		return &journal.Memory{}, nil
	case "sqlite":
		return a.openSQLiteJournal(o)
	}
	o.Key, o.Place, o.KeyPlace = key, "its PostgreSQL database", "journal.key of the configuration"
	return sqljournal.OpenPostgres(where, nil)
}

// openSQLiteJournal opens the journal in the user's state folder.
func (a *App) openSQLiteJournal(o *journal.Options) (journal.Driver, error) {
	folder := stateFolder()
	if folder == "" {
		return &brokenDriver{fault.New(fault.Unavailable, "there is no folder for the journal: set HOME, or journal: {store: memory}")}, nil
	}
	folder = filepath.Join(folder, "onecall")
	o.Place, o.KeyPlace = filepath.Join(folder, "journal.db"), filepath.Join(folder, "journal.key")
	driver, err := sqljournal.OpenSQLite(o.Place, &sqljournal.Options{Elsewhere: "set XDG_STATE_HOME to another folder"})
	if err != nil {
		return nil, err
	}
	key, err := a.readOrCreateKey(o, driver)
	if err == nil {
		o.Key = key
		return driver, nil
	}
	_ = driver.Close() // nothing was written
	if _, coded := fault.As(err); !coded {
		err = fault.New(fault.Unavailable, "the folder %s cannot be used (%v): make it writable, set XDG_STATE_HOME, or journal: {store: memory}",
			folder, textfile.Cause(err))
	}
	return &brokenDriver{err}, nil //nolint:nilerr // chains that only read still run; calls that write report the error
}

// readOrCreateKey returns the key of this machine's journal. At first use it creates the key. If the journal has runs, their key was lost:
// readOrCreateKey warns, and new runs have the new key. A key that is too short is an error.
func (a *App) readOrCreateKey(o *journal.Options, driver journal.Driver) ([]byte, error) {
	key, err := os.ReadFile(o.KeyPlace)
	if !errors.Is(err, fs.ErrNotExist) {
		if err == nil && len(key) < journal.MinKeyBytes {
			err = fault.New(fault.Unavailable, "%s is not the key of a journal: put the key back, or remove the file to create another; "+
				"runs in the journal beside it can then no longer be resumed or undone", o.KeyPlace)
		}
		return key, err
	}
	orphaned := hasRuns(o.Place, driver) // asked first: the key of a process that is faster is no loss
	key, created, err := createKey(o.KeyPlace)
	if created && orphaned {
		a.process.warnRedacted(fault.New(fault.Unreadable, "the key of the journal, %s, was gone, and another one was made: the runs in %s "+
			"can no longer be read, resumed or undone. To continue them, put the key back in its place", o.KeyPlace, o.Place))
	}
	return key, err
}

// hasRuns reports whether the journal in a file has runs. It does not create the file.
func hasRuns(path string, driver journal.Driver) bool {
	if _, err := os.Stat(path); err != nil {
		return false
	}
	rows, err := driver.List(context.Background(), &journal.Filter{Limit: 1})
	return err == nil && len(rows) > 0
}

// createKey creates the key of a journal, unless another process is faster, and returns the key that there is then.
func createKey(path string) (key []byte, created bool, err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, false, err
	}
	key = make([]byte, journal.MinKeyBytes)
	_, _ = rand.Read(key)
	temporary, err := os.CreateTemp(filepath.Dir(path), "journal.key-")
	if err != nil {
		return nil, false, err
	}
	defer os.Remove(temporary.Name())
	_, err = temporary.Write(key)
	if err = errors.Join(err, temporary.Sync(), temporary.Close()); err != nil {
		return nil, false, err
	}
	err = os.Link(temporary.Name(), path)
	if created = err == nil; err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, false, err
	}
	key, err = os.ReadFile(path)
	return key, created, err
}

// brokenDriver stands in for a driver that could not be opened. Every operation except Close fails with err.
type brokenDriver struct{ err error }

// Write implements journal.Driver.
func (u *brokenDriver) Write(context.Context, []journal.Write) ([]bool, error) { return nil, u.err }

// Acquire implements journal.Driver.
func (u *brokenDriver) Acquire(context.Context, string, *string) (*journal.Record, error) {
	return nil, u.err
}

// Load implements journal.Driver.
func (u *brokenDriver) Load(context.Context, string, int64, int) (*journal.Record, error) {
	return nil, u.err
}

// Version implements journal.Driver.
func (u *brokenDriver) Version(context.Context) (string, time.Duration, error) { return "", 0, u.err }

// LoadRow implements journal.Driver.
func (u *brokenDriver) LoadRow(context.Context, string) (*journal.Row, error) { return nil, u.err }

// Find implements journal.Driver.
func (u *brokenDriver) Find(context.Context, string, string) (string, time.Time, error) {
	return "", time.Time{}, u.err
}

// List implements journal.Driver.
func (u *brokenDriver) List(context.Context, *journal.Filter) ([]journal.Row, error) {
	return nil, u.err
}

// Parts implements journal.Driver.
func (u *brokenDriver) Parts(context.Context, []string) (map[string]journal.Parts, error) {
	return nil, u.err
}

// Days implements journal.Driver.
func (u *brokenDriver) Days(context.Context, *journal.Filter) ([]journal.Day, error) {
	return nil, u.err
}

// States implements journal.Driver.
func (u *brokenDriver) States(context.Context, *journal.StateFilter) ([]journal.StateRow, error) {
	return nil, u.err
}

// AwaitState implements journal.Driver.
func (u *brokenDriver) AwaitState(context.Context, string) error { return u.err }

// RemoveStates implements journal.Driver.
func (u *brokenDriver) RemoveStates(context.Context, string, []string) error { return u.err }

// MarkState implements journal.Driver.
func (u *brokenDriver) MarkState(context.Context, journal.StateKey, time.Duration) error {
	return u.err
}

// KeepState implements journal.Driver.
func (u *brokenDriver) KeepState(context.Context, *journal.StateRow, time.Duration, bool) (bool, error) {
	return false, u.err
}

// Expire implements journal.Driver.
func (u *brokenDriver) Expire(context.Context, time.Time, time.Time) error { return u.err }

// Check implements journal.Driver.
func (u *brokenDriver) Check(context.Context) error { return u.err }

// Verify implements journal.Driver.
func (u *brokenDriver) Verify(context.Context) error { return u.err }

// Close implements journal.Driver.
func (u *brokenDriver) Close() error { return nil }
