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

// Store keeps secrets by key. It may be used by many goroutines and processes at once; each Set is seen whole or not at
// all. Keys are letters, digits and punctuation, values at most 64 KiB. Its errors are coded: denied (it is not safe to
// use), unavailable (it does not work), timeout, limit_exceeded.
type Store interface {
	// Get gives the value; nil without an error where there is none.
	Get(ctx context.Context, key string) ([]byte, error)
	Set(ctx context.Context, key string, value []byte) error
	// Delete of what is not there is no error.
	Delete(ctx context.Context, key string) error
	// Lock keeps other holders of the key's lock out, in this and in other processes, until unlock is called. It does not
	// keep out Get, Set and Delete.
	Lock(ctx context.Context, key string) (unlock func(), err error)
	// Kind is "keyring" or "file".
	Kind() string
}

const maxValue = 64 << 10

func tooLong(value []byte) error {
	if len(value) > maxValue {
		return fault.New(fault.LimitExceeded, "a login of %d bytes is more than the %d that are kept", len(value), maxValue)
	}
	return nil
}

// lockFile locks a file in the folder, which is made for its owner alone. The operating system frees the lock when its
// holder dies. A wait that is given up leaves a goroutine behind until the holder is done.
func lockFile(ctx context.Context, folder, name string) (unlock func(), err error) {
	if err := private(folder); err != nil {
		return nil, err
	}
	type locked struct {
		unlock func()
		err    error
	}
	done := make(chan locked, 1)
	go func() {
		unlock, err := lockedfile.MutexAt(filepath.Join(folder, name+".lock")).Lock()
		done <- locked{unlock, err}
	}()
	select {
	case l := <-done:
		if l.err != nil {
			return nil, fault.New(fault.Unavailable, "the folder %s of the logins cannot be used: %s", folder, words(l.err.Error()))
		}
		return l.unlock, nil
	case <-ctx.Done():
		go func() {
			if l := <-done; l.err == nil {
				l.unlock()
			}
		}()
		return nil, trouble("another process holds the lock of the logins in "+folder, ctx.Err())
	}
}

// private makes the folder, or checks that nobody else can put files into it.
func private(folder string) error {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return fault.New(fault.Unavailable, "the folder %s of the logins cannot be made: %s", folder, words(err.Error()))
	}
	info, err := os.Stat(folder)
	if err != nil {
		return fault.New(fault.Unavailable, "the folder %s of the logins cannot be read: %s", folder, words(err.Error()))
	}
	if hasModes && info.Mode().Perm()&0o022 != 0 {
		return fault.New(fault.Denied, "others may write to the folder %s of the logins: run `chmod 700 %s`", folder, folder)
	}
	return nil
}

// Auto is the keyring where one works, else a file in the folder, which also has the logins that are too long for the keyring. Nothing is asked of the keyring before the first
// login; what was chosen then is written to the folder and stays, so that a keyring that is locked one day does not make
// a login disappear, and none turns up in a file by surprise. To choose anew, log out and delete the file "store" there.
func Auto(folder string) Store {
	return &auto{folder: folder, keyring: newKeyring(osRing{}, "onecall", folder), file: newFile(filepath.Join(folder, "logins.json"))}
}

type auto struct {
	folder        string
	keyring, file Store
	probing       sync.Mutex
}

// chosen is the store that the folder names; nil where none was chosen yet.
func (a *auto) chosen() (Store, error) {
	text, err := os.ReadFile(filepath.Join(a.folder, "store"))
	switch kind := strings.TrimSpace(string(text)); {
	case errors.Is(err, os.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, fault.New(fault.Unavailable, "the folder %s of the logins cannot be read: %s", a.folder, words(err.Error()))
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
		return a.file.Get(ctx, key) // it was too long
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

// Set implements Store; the first one chooses.
func (a *auto) Set(ctx context.Context, key string, value []byte) error {
	a.probing.Lock()
	s, err := a.chosen()
	if s == nil && err == nil {
		s, err = a.choose(ctx)
	}
	a.probing.Unlock()
	if err != nil {
		return err
	}
	err = s.Set(ctx, key, value)
	switch {
	case s != a.keyring:
		return err
	case err == nil:
		return a.file.Delete(ctx, key) // an earlier one that was too long
	case fault.CodeOf(err) == fault.LimitExceeded && len(value) <= maxValue:
		if err = a.file.Set(ctx, key, value); err == nil {
			err = s.Delete(ctx, key)
		}
	}
	return err
}

// choose tries the keyring with a value of its own. A keyring can wait for a person without end: it has a few seconds.
func (a *auto) choose(ctx context.Context) (Store, error) {
	if err := private(a.folder); err != nil {
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

// Lock implements Store. It is the same whatever is chosen.
func (a *auto) Lock(ctx context.Context, key string) (func(), error) {
	return lockFile(ctx, a.folder, key)
}

// Kind implements Store: "file" as long as nothing is chosen.
func (a *auto) Kind() string {
	if s, _ := a.chosen(); s != nil {
		return s.Kind()
	}
	return a.file.Kind()
}
