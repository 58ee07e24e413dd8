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

// openJournal opens the journal of runs: a file in the user's state folder, a server, or memory. Apps with the same journal share it. What
// is replayed is remembered for as long as the replay lasts. nil: nothing is remembered.
func (a *App) openJournal(c *config.Config) (*journal.Journal, error) {
	where := config.Or(c.Journal.Store, "sqlite")
	if a.cassette != nil {
		where = "memory"
	}
	if where == "off" {
		return nil, nil
	}
	keep := config.Or(c.Journal.Keep, journal.DefaultKeep)
	values := config.Or(c.Journal.Values, false)
	id := fmt.Sprint("journal ", where, " ", keep, " ", values, " ", fingerprint([]string{config.Or(c.Journal.Key, "")}))
	j, release, err := acquire(&a.process.pool, id, func() (*journal.Journal, error) {
		driver, key, err := openDriver(where, []byte(config.Or(c.Journal.Key, "")))
		if err != nil {
			return nil, err
		}
		return journal.New(driver, &journal.Options{Key: key, Keep: keep, Values: values, Warn: a.process.warnJournal, Estimate: a.estimate})
	})
	if err == nil {
		a.closers = append(a.closers, closer(release))
	}
	return j, err
}

// scope is the configuration file that runs of this app are told apart by: all configurations of a user share one journal. It is "" without
// a file, and on a server's journal, which is that of one environment, and whose replicas may have their files anywhere.
func (a *App) scope() string {
	if where := config.Or(a.config.Journal.Store, "sqlite"); a.config.Path == "" || where != "sqlite" && where != "memory" {
		return ""
	}
	path, err := filepath.Abs(a.config.Path)
	if err != nil {
		return a.config.Path
	}
	// A file that is itself a link may lead elsewhere when its content changes, as that of a ConfigMap does.
	if folder, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		path = filepath.Join(folder, filepath.Base(path))
	}
	return path
}

// ShowsValues reports whether arguments and results of runs may be shown.
func (a *App) ShowsValues() bool { return config.Or(a.config.Journal.Values, false) }

// maxEstimated bounds the bytes of a result that its tokens are estimated of.
const maxEstimated = 4 << 10

// estimate estimates the tokens of a result by its beginning.
func (a *App) estimate(result []byte) int {
	part := result[:min(len(result), maxEstimated)]
	return a.Counter.Count(part, -1) * len(result) / max(len(part), 1)
}

// warnJournal reports that the journal fails.
func (p *process) warnJournal(err error) {
	f, ok := fault.As(err)
	if !ok {
		f = fault.New(fault.Unavailable, "%v", err)
	}
	own := *f
	own.Message = "the journal cannot be written, and calls that write are refused until it can: " + f.Message
	p.warnRedacted(&own)
}

// openDriver opens what keeps a journal, and gives the journal's key; nil: any.
func openDriver(where string, key []byte) (journal.Driver, []byte, error) {
	switch where {
	case "memory":
		return &journal.Memory{}, nil, nil
	case "sqlite":
		folder := stateFolder()
		if folder == "" {
			return &unusable{fault.New(fault.Unavailable, "there is no folder for the journal: set HOME, or journal: {store: memory}")}, nil, nil
		}
		folder = filepath.Join(folder, "onecall")
		key, err := fileKey(filepath.Join(folder, "journal.key"))
		if err != nil {
			if _, coded := fault.As(err); !coded {
				err = fault.New(fault.Unavailable, "the folder %s cannot be used (%v): see to it, set XDG_STATE_HOME, or journal: {store: memory}", folder, textfile.Cause(err))
			}
			return &unusable{err}, nil, nil //nolint:nilerr // a chain that only reads runs all the same, and what writes is told it
		}
		driver, err := sqljournal.OpenSQLite(filepath.Join(folder, "journal.db"), nil)
		return driver, key, err
	}
	driver, err := sqljournal.OpenPostgres(where, nil)
	return driver, key, err
}

// fileKey reads the key of a journal on this machine, which is made at first use.
func fileKey(path string) ([]byte, error) {
	key, err := os.ReadFile(path)
	if !errors.Is(err, fs.ErrNotExist) {
		if err == nil && len(key) < journal.LeastKey {
			err = fault.New(fault.Unavailable, "%s is no key of a journal: remove it, and what is in the journal beside it cannot be resumed any more", path)
		}
		return key, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	key = make([]byte, journal.LeastKey)
	_, _ = rand.Read(key)
	temporary, err := os.CreateTemp(filepath.Dir(path), "journal.key-")
	if err != nil {
		return nil, err
	}
	defer os.Remove(temporary.Name())
	_, err = temporary.Write(key)
	if err = errors.Join(err, temporary.Sync(), temporary.Close()); err != nil {
		return nil, err
	}
	if err := os.Link(temporary.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) { // whoever is first has made it
		return nil, err
	}
	return os.ReadFile(path)
}

// unusable is a driver that cannot be opened.
type unusable struct{ err error }

// Write implements journal.Driver.
func (u *unusable) Write(context.Context, []journal.Write) ([]bool, error) { return nil, u.err }

// Take implements journal.Driver.
func (u *unusable) Take(context.Context, string, *string) (*journal.Record, error) { return nil, u.err }

// Load implements journal.Driver.
func (u *unusable) Load(context.Context, string) (*journal.Record, error) { return nil, u.err }

// Find implements journal.Driver.
func (u *unusable) Find(context.Context, string, string, string) (string, error) { return "", u.err }

// List implements journal.Driver.
func (u *unusable) List(context.Context, *journal.Filter) ([]journal.Row, error) { return nil, u.err }

// Days implements journal.Driver.
func (u *unusable) Days(context.Context, *journal.Filter) ([]journal.Day, error) { return nil, u.err }

// Expire implements journal.Driver.
func (u *unusable) Expire(context.Context, time.Time, time.Time) error { return u.err }

// Check implements journal.Driver.
func (u *unusable) Check(context.Context) error { return u.err }

// Close implements journal.Driver.
func (u *unusable) Close() error { return nil }
