package login

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// The Secret Service of a Linux desktop, provided by gnome-keyring on its own session bus with its own home. The user's keyring is not
// touched.
func TestGnomeKeyring(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("gnome-keyring is tested on Linux")
	}
	for _, program := range []string{"dbus-run-session", "gnome-keyring-daemon", "sh"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%s is not installed (Debian: apt-get install dbus gnome-keyring)", program)
		}
	}
	home := t.TempDir()
	if err := os.Mkdir(filepath.Join(home, "run"), 0o700); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	// The daemon stops with the bus, which stops with the command.
	c := exec.CommandContext(ctx, "dbus-run-session", "--", "sh", "-c",
		`printf '\n' | gnome-keyring-daemon --unlock --components=secrets >/dev/null && exec "$0"`, os.Args[0])
	c.WaitDelay = 5 * time.Second
	for _, line := range os.Environ() {
		if name, _, _ := strings.Cut(line, "="); !strings.HasPrefix(name, "XDG_") && !strings.HasPrefix(name, "DBUS_") && name != "HOME" &&
			name != "GNOME_KEYRING_CONTROL" {
			c.Env = append(c.Env, line)
		}
	}
	c.Env = append(c.Env, "HOME="+home, "XDG_RUNTIME_DIR="+filepath.Join(home, "run"), "ONECALL_OAUTH_CHILD=keyring",
		"ONECALL_OAUTH_FOLDER="+filepath.Join(home, "logins"))
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if _, err := os.Stat(filepath.Join(home, "logins", "logins.json")); err == nil {
		t.Error("logins.json was written although the keyring works")
	}
}

// childKeyring runs inside the session with the keyring.
func childKeyring(ctx context.Context) error {
	folder := os.Getenv("ONECALL_OAUTH_FOLDER")
	if err := checkStore(ctx, newKeyring(osKeyring{}, "onecall-test", folder)); err != nil {
		return err
	}
	s := Auto(folder)
	if err := checkStore(ctx, s); err != nil {
		return err
	}
	if s.Kind() != "keyring" {
		return errors.New("the keyring was not chosen")
	}
	long := strings.Repeat("x", 10_000)
	if err := s.Set(ctx, "long", []byte(long)); err != nil {
		return err
	}
	if got, err := Auto(folder).Get(ctx, "long"); err != nil || string(got) != long {
		return fmt.Errorf("another store reads %d bytes: %w", len(got), err)
	}
	return s.Delete(ctx, "long")
}

// Without a session bus nothing is started, and the error comes at once.
func TestNoKeyring(t *testing.T) {
	t.Parallel()
	if hasSessionBus() {
		t.Skip("there is a session bus on this machine")
	}
	_, err := newKeyring(osKeyring{}, "onecall-test", t.TempDir()).Get(t.Context(), "key")
	wantError(t, nil, err, "unavailable", "no session bus")
}
