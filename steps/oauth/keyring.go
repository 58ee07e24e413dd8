package oauth

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/zalando/go-keyring"

	"github.com/onecall-mcp/onecall/fault"
)

// Keyring keeps secrets in the operating system's keyring: the Secret Service of a Linux desktop, the macOS keychain, the
// Windows credential manager. Service is the name under which they stand there; the folder holds the locks. A value that
// is too long for an entry of Windows or macOS is split over several. A keyring that asks its user to unlock it has 30
// seconds.
func Keyring(service, folder string) Store {
	return newKeyring(osRing{}, service, folder)
}

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

const (
	keyringTimeout = 30 * time.Second
	// pieceSize fits an entry of Windows (2,560 bytes) and of macOS (4,096 for the whole command, in base64).
	pieceSize = 2000
	// splitMark begins an entry that is not a value but says where its pieces are: mark, number, name, checksum.
	splitMark = "onecall-pieces:"
)

// Kind implements Store.
func (s *keyringStore) Kind() string { return "keyring" }

// Lock implements Store.
func (s *keyringStore) Lock(ctx context.Context, key string) (func(), error) {
	return lockFile(ctx, s.folder, key)
}

// Get implements Store. A value that is being replaced while it is read is read again.
func (s *keyringStore) Get(ctx context.Context, key string) ([]byte, error) {
	var got []byte // written by a call that may be left behind: it is read only when that has ended
	err := s.run(ctx, "read", func() (err error) {
		for range 3 {
			if got, err = s.get(key); !errors.Is(err, errTorn) {
				break
			}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return got, nil
}

var errTorn = errors.New("its pieces do not fit together: log in again")

func (s *keyringStore) get(key string) ([]byte, error) {
	head, err := s.ring.Get(s.service, key)
	if errors.Is(err, keyring.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	pieces, sum := s.pieces(key, head)
	if pieces == nil {
		return []byte(head), nil
	}
	var whole strings.Builder
	for _, name := range pieces {
		piece, err := s.ring.Get(s.service, name)
		if errors.Is(err, keyring.ErrNotFound) {
			return nil, errTorn
		}
		if err != nil {
			return nil, err
		}
		whole.WriteString(piece)
	}
	if checksum([]byte(whole.String())) != sum {
		return nil, errTorn
	}
	return []byte(whole.String()), nil
}

// Set implements Store. The pieces of a long value get names of their own, and the entry that points at them is written
// last: readers see the old or the new value.
func (s *keyringStore) Set(ctx context.Context, key string, value []byte) error {
	if err := tooLong(value); err != nil {
		return err
	}
	return s.run(ctx, "written", func() error {
		before, err := s.ring.Get(s.service, key)
		if err != nil && !errors.Is(err, keyring.ErrNotFound) {
			return err
		}
		head, names := string(value), []string(nil)
		if len(value) > pieceSize || strings.HasPrefix(head, splitMark) {
			n := (len(value) + pieceSize - 1) / pieceSize
			head = splitMark + strconv.Itoa(n) + ":" + random() + ":" + checksum(value)
			names, _ = s.pieces(key, head)
			for i, name := range names {
				if err := s.ring.Set(s.service, name, string(value[i*pieceSize:min((i+1)*pieceSize, len(value))])); err != nil {
					s.remove(names[:i])
					return err
				}
			}
		}
		if err := s.ring.Set(s.service, key, head); err != nil {
			s.remove(names)
			return err
		}
		old, _ := s.pieces(key, before)
		s.remove(old)
		return nil
	})
}

// Delete implements Store.
func (s *keyringStore) Delete(ctx context.Context, key string) error {
	return s.run(ctx, "changed", func() error {
		head, err := s.ring.Get(s.service, key)
		if errors.Is(err, keyring.ErrNotFound) {
			return nil
		}
		if err == nil {
			err = s.ring.Delete(s.service, key)
		}
		if err == nil {
			old, _ := s.pieces(key, head)
			s.remove(old)
		}
		return err
	})
}

// pieces reads an entry that says where the pieces of its value are; nil for a value itself.
func (s *keyringStore) pieces(key, head string) (names []string, sum string) {
	rest, split := strings.CutPrefix(head, splitMark)
	parts := strings.Split(rest, ":")
	if !split || len(parts) != 3 {
		return nil, ""
	}
	n, err := strconv.Atoi(parts[0])
	if err != nil || n < 1 || n > maxValue/pieceSize+1 {
		return nil, ""
	}
	for i := range n {
		names = append(names, key+"."+parts[1]+"."+strconv.Itoa(i))
	}
	return names, parts[2]
}

func (s *keyringStore) remove(names []string) {
	for _, name := range names {
		_ = s.ring.Delete(s.service, name) // what stays behind is useless, and found by nobody
	}
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
		if err != nil {
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

func checksum(value []byte) string {
	sum := sha256.Sum256(value)
	return hex.EncodeToString(sum[:])
}
