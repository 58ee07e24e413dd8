package login

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/rogpeppe/go-internal/lockedfile"

	"github.com/onecall-mcp/onecall/fault"
)

// Store stores secrets by key. It is safe for concurrent use by goroutines and processes; each Set is atomic. Keys are letters,
// digits and punctuation, values at most 64 KiB. Errors are coded: denied (unsafe to use), unavailable (does not work), timeout,
// limit_exceeded.
type Store interface {
	// Get returns the value; nil without an error: there is none.
	Get(ctx context.Context, key string) ([]byte, error)
	Set(ctx context.Context, key string, value []byte) error
	// Delete removes a value. A missing one is not an error.
	Delete(ctx context.Context, key string) error
	// Lock acquires the key's lock across goroutines and processes, until unlock is called. It does not block Get, Set and
	// Delete.
	Lock(ctx context.Context, key string) (unlock func(), err error)
	// Kind returns "keyring" or "file", or what another store is called.
	Kind() string
}

const maxValue = 64 << 10 // bytes

// checkLength returns limit_exceeded for a value that is too long to be stored.
func checkLength(value []byte) error {
	if len(value) > maxValue {
		return fault.New(fault.LimitExceeded, "a login of %d bytes is longer than the %d that can be stored", len(value), maxValue)
	}
	return nil
}

// lockFile locks a file in the folder. It creates the folder, for its owner only, if it does not exist. The operating system releases the
// lock when its holder dies. If ctx ends the wait, a goroutine remains until the holder is done.
func lockFile(ctx context.Context, folder, name string) (unlock func(), err error) {
	if err := makePrivate(folder); err != nil {
		return nil, err
	}
	type attempt struct {
		unlock func()
		err    error
	}
	done := make(chan attempt, 1)
	go func() {
		unlock, err := lockedfile.MutexAt(filepath.Join(folder, name+".lock")).Lock()
		done <- attempt{unlock, err}
	}()
	select {
	case l := <-done:
		if l.err != nil {
			return nil, fault.New(fault.Unavailable, "the folder %s of the logins cannot be used: %s", folder, clean(l.err.Error()))
		}
		return l.unlock, nil
	case <-ctx.Done():
		go func() {
			if l := <-done; l.err == nil {
				l.unlock()
			}
		}()
		return nil, codedError("another process holds the lock of the logins in "+folder, ctx.Err())
	}
}

// makePrivate creates the folder if it does not exist, and checks that nobody else can write to it.
func makePrivate(folder string) error {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return fault.New(fault.Unavailable, "the folder %s of the logins cannot be created: %s", folder, clean(err.Error()))
	}
	info, err := os.Stat(folder)
	if err != nil {
		return fault.New(fault.Unavailable, "the folder %s of the logins cannot be read: %s", folder, clean(err.Error()))
	}
	if hasModes && info.Mode().Perm()&0o022 != 0 {
		return fault.New(fault.Denied, "others may write to the folder %s of the logins: run `chmod 700 %s`", folder, folder)
	}
	return nil
}

// Auto returns a store that uses the keyring if it works, else a file in the folder, which also holds logins that are too long
// for the keyring. The first login tries the keyring and records the choice in the folder. The choice is permanent: a locked
// keyring does not make logins disappear or end up in a file. To choose again, log out and delete the file "store" in the folder.
func Auto(folder string) Store {
	return &auto{folder: folder, keyring: newKeyring(osKeyring{}, "onecall", folder), file: newFileStore(filepath.Join(folder, "logins.json"))}
}

type auto struct {
	folder        string
	keyring, file Store
	choosing      sync.Mutex // held while a store is chosen
}

// chosen returns the chosen store; nil: none is chosen yet.
func (a *auto) chosen() (Store, error) {
	text, err := os.ReadFile(filepath.Join(a.folder, "store"))
	switch kind := strings.TrimSpace(string(text)); {
	case errors.Is(err, os.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, fault.New(fault.Unavailable, "the folder %s of the logins cannot be read: %s", a.folder, clean(err.Error()))
	case kind == a.keyring.Kind():
		return a.keyring, nil
	case kind == a.file.Kind():
		return a.file, nil
	default:
		return nil, fault.New(fault.Denied, "the file %s must hold keyring or file: correct or delete it", filepath.Join(a.folder, "store"))
	}
}

// Get implements Store.
func (a *auto) Get(ctx context.Context, key string) ([]byte, error) {
	s, err := a.chosen()
	if s == nil {
		return nil, err
	}
	value, err := s.Get(ctx, key)
	if value == nil && err == nil && s == a.keyring {
		return a.file.Get(ctx, key) // Set stores what is too long for the keyring there
	}
	return value, err
}

// Delete implements Store.
func (a *auto) Delete(ctx context.Context, key string) error {
	s, err := a.chosen()
	switch s {
	case nil:
		return err
	case a.keyring:
		err = a.file.Delete(ctx, key)
	}
	return errors.Join(err, s.Delete(ctx, key))
}

// Set implements Store. The first call chooses.
func (a *auto) Set(ctx context.Context, key string, value []byte) error {
	a.choosing.Lock()
	s, err := a.chosen()
	if s == nil && err == nil {
		s, err = a.choose(ctx)
	}
	a.choosing.Unlock()
	if err != nil {
		return err
	}
	err = s.Set(ctx, key, value)
	switch {
	case s != a.keyring:
		return err
	case err == nil:
		return a.file.Delete(ctx, key) // an earlier login may have been too long for the keyring
	case fault.CodeOf(err) == fault.LimitExceeded && len(value) <= maxValue:
		if err = a.file.Set(ctx, key, value); err == nil {
			err = s.Delete(ctx, key)
		}
	}
	return err
}

// choose chooses the keyring if a test value can be stored, read and deleted within five seconds (a keyring may wait for a person forever),
// else the file. It records the choice.
func (a *auto) choose(ctx context.Context) (Store, error) {
	if err := makePrivate(a.folder); err != nil {
		return nil, err
	}
	try, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	s := a.file
	key := "probe-" + random()
	if a.keyring.Set(try, key, []byte("{}")) == nil {
		if got, err := a.keyring.Get(try, key); err == nil && string(got) == "{}" && a.keyring.Delete(try, key) == nil {
			s = a.keyring
		}
	}
	return s, replaceFile(filepath.Join(a.folder, "store"), []byte(s.Kind()+"\n"))
}

// Lock implements Store. The lock does not depend on which store is chosen.
func (a *auto) Lock(ctx context.Context, key string) (func(), error) {
	return lockFile(ctx, a.folder, key)
}

// Kind implements Store: "file" before the choice.
func (a *auto) Kind() string {
	if s, _ := a.chosen(); s != nil {
		return s.Kind()
	}
	return a.file.Kind()
}
