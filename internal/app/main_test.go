package app

import (
	"os"
	"path/filepath"
	"testing"
)

// TestMain gives the tests folders of their own for journals and logins, and no keyring.
func TestMain(m *testing.M) {
	folder, err := os.MkdirTemp("", "onecall-app")
	if err != nil {
		panic(err)
	}
	for name, value := range map[string]string{"XDG_STATE_HOME": filepath.Join(folder, "state"), "XDG_CONFIG_HOME": filepath.Join(folder, "config"),
		"DBUS_SESSION_BUS_ADDRESS": "unix:path=" + filepath.Join(folder, "none"), "XDG_RUNTIME_DIR": folder} {
		os.Setenv(name, value)
	}
	code := m.Run()
	os.RemoveAll(folder)
	os.Exit(code)
}
