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

// newKeyring returns a store that keeps secrets in the operating system's keyring: the Secret Service of Linux desktops, the macOS keychain
// or the Windows credential manager. service is the name of the entries there; folder holds the locks. A login that is too long for the
// system's keyring is limit_exceeded: Windows allows 2,560 bytes, macOS about 3,000. If a keyring asks its user to unlock it, the user has
// 30 seconds.
func newKeyring(r keyringAPI, service, folder string) *keyringStore {
	return &keyringStore{api: r, service: service, folder: folder, running: make(chan struct{}, 1)}
}

// keyringAPI is the library's interface.
type keyringAPI interface {
	Get(service, key string) (string, error)
	Set(service, key, value string) error
	Delete(service, key string) error
}

type osKeyring struct{}

func (osKeyring) Get(service, key string) (string, error) { return keyring.Get(service, key) }
func (osKeyring) Set(service, key, value string) error    { return keyring.Set(service, key, value) }
func (osKeyring) Delete(service, key string) error        { return keyring.Delete(service, key) }

type keyringStore struct {
	api             keyringAPI
	service, folder string
	// running is a semaphore that is held by the running call. The library has no timeouts: if a call hangs, its caller stops waiting and
	// later calls time out, so at most one call of the library hangs.
	running chan struct{}
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
	var got []byte // read only if the call has ended: an abandoned call may still write it
	err := s.run(ctx, "read", func() error {
		value, err := s.api.Get(s.service, key)
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
	if err := checkLength(value); err != nil {
		return err
	}
	return s.run(ctx, "written", func() error { return s.api.Set(s.service, key, string(value)) })
}

// Delete implements Store.
func (s *keyringStore) Delete(ctx context.Context, key string) error {
	return s.run(ctx, "changed", func() error { return unlessMissing(s.api.Delete(s.service, key)) })
}

func unlessMissing(err error) error {
	if errors.Is(err, keyring.ErrNotFound) {
		return nil
	}
	return err
}

// run calls the library with a timeout, one call at a time. verb completes the message "the keyring cannot be …".
func (s *keyringStore) run(ctx context.Context, verb string, do func() error) error {
	if _, real := s.api.(osKeyring); real && !hasSessionBus() {
		return fault.New(fault.Unavailable, "there is no keyring here: no session bus is running")
	}
	ctx, cancel := context.WithTimeout(ctx, keyringTimeout)
	defer cancel()
	const stuck = "the keyring does not answer (unlock it, or keep the logins in a file)"
	select {
	case s.running <- struct{}{}:
	case <-ctx.Done():
		return codedError(stuck, ctx.Err())
	}
	done := make(chan error, 1)
	go func() {
		defer func() { <-s.running }()
		done <- do()
	}()
	select {
	case err := <-done:
		switch {
		case errors.Is(err, keyring.ErrSetDataTooBig):
			return fault.New(fault.LimitExceeded, "the login is too long for this system's keyring")
		case err != nil:
			return fault.New(fault.Unavailable, "the keyring cannot be %s: %s", verb, clean(err.Error()))
		}
		return nil
	case <-ctx.Done():
		return codedError(stuck, ctx.Err())
	}
}

// hasSessionBus reports whether the Secret Service may be available. Without this check the library would start its own bus
// (dbus-launch), which nothing would stop.
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
