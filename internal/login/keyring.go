package login

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	"github.com/zalando/go-keyring"

	"github.com/onecall-mcp/onecall/fault"
)

// newKeyring keeps secrets in the operating system's keyring: the Secret Service of a Linux desktop, the macOS keychain, the
// Windows credential manager. Service is the name under which they stand there; the folder holds the locks. Windows
// and macOS bound an entry (2,560 and some 3,000 bytes): limit_exceeded past that. A keyring that asks its user to unlock it
// has 30 seconds.
func newKeyring(r ring, service, folder string) *keyringStore {
	return &keyringStore{ring: r, service: service, folder: folder, turn: make(chan struct{}, 1)}
}

// ring is a keyring as the library offers it.
type ring interface {
	Get(service, key string) (string, error)
	Set(service, key, value string) error
	Delete(service, key string) error
}

type osRing struct{}

func (osRing) Get(service, key string) (string, error) { return keyring.Get(service, key) }
func (osRing) Set(service, key, value string) error    { return keyring.Set(service, key, value) }
func (osRing) Delete(service, key string) error        { return keyring.Delete(service, key) }

type keyringStore struct {
	ring            ring
	service, folder string
	// turn is held by the one call that runs. The library knows no time limits: a call that hangs is left behind, and
	// those after it wait their time and fail, so that there is never more than one.
	turn chan struct{}
}

const keyringTimeout = 30 * time.Second

// Kind implements Store.
func (s *keyringStore) Kind() string { return "keyring" }

// Lock implements Store.
func (s *keyringStore) Lock(ctx context.Context, key string) (func(), error) {
	return lockFile(ctx, s.folder, key)
}

// Get implements Store.
func (s *keyringStore) Get(ctx context.Context, key string) ([]byte, error) {
	var got []byte // written by a call that may be left behind: it is read only when that has ended
	err := s.run(ctx, "read", func() error {
		value, err := s.ring.Get(s.service, key)
		if err == nil {
			got = []byte(value)
		}
		return unlessMissing(err)
	})
	if err != nil {
		return nil, err
	}
	return got, nil
}

// Set implements Store.
func (s *keyringStore) Set(ctx context.Context, key string, value []byte) error {
	if err := tooLong(value); err != nil {
		return err
	}
	return s.run(ctx, "written", func() error { return s.ring.Set(s.service, key, string(value)) })
}

// Delete implements Store.
func (s *keyringStore) Delete(ctx context.Context, key string) error {
	return s.run(ctx, "changed", func() error { return unlessMissing(s.ring.Delete(s.service, key)) })
}

func unlessMissing(err error) error {
	if errors.Is(err, keyring.ErrNotFound) {
		return nil
	}
	return err
}

// run makes a call of the library within a time, one at a time.
func (s *keyringStore) run(ctx context.Context, verb string, do func() error) error {
	if _, real := s.ring.(osRing); real && !hasSessionBus() {
		return fault.New(fault.Unavailable, "there is no keyring here: no session bus is running")
	}
	ctx, cancel := context.WithTimeout(ctx, keyringTimeout)
	defer cancel()
	const stuck = "the keyring does not answer: unlock it, or keep the logins in a file"
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return trouble(stuck, ctx.Err())
	}
	done := make(chan error, 1)
	go func() {
		defer func() { <-s.turn }()
		done <- do()
	}()
	select {
	case err := <-done:
		switch {
		case errors.Is(err, keyring.ErrSetDataTooBig):
			return fault.New(fault.LimitExceeded, "the login is too long for this system's keyring")
		case err != nil:
			return fault.New(fault.Unavailable, "the keyring cannot be %s: %s", verb, words(err.Error()))
		}
		return nil
	case <-ctx.Done():
		return trouble(stuck, ctx.Err())
	}
}

// hasSessionBus tells whether the Secret Service can be there. Without this look the library would start a bus of its own
// (dbus-launch), which nothing would ever stop.
func hasSessionBus() bool {
	if runtime.GOOS == "darwin" || runtime.GOOS == "windows" {
		return true
	}
	if address := os.Getenv("DBUS_SESSION_BUS_ADDRESS"); address != "" {
		return address != "autolaunch:"
	}
	for _, name := range []string{"bus", "dbus-session"} { // where the library looks
		if _, err := os.Stat(filepath.Join("/run/user", strconv.Itoa(os.Getuid()), name)); err == nil {
			return true
		}
	}
	return false
}
