package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/internal/app"
)

// TestDoctorLogins checks a missing login, one that the server refuses, and one that is not needed.
func TestDoctorLogins(t *testing.T) {
	// Not parallel: the login is stored in the folders of this environment. Without a bus there is no keyring, so it is a file.
	folder := t.TempDir()
	for name, value := range map[string]string{"HOME": folder, "AppData": folder, "XDG_CONFIG_HOME": filepath.Join(folder, ".config"),
		"XDG_STATE_HOME": filepath.Join(folder, ".state"), "XDG_CACHE_HOME": filepath.Join(folder, ".cache"), "XDG_RUNTIME_DIR": folder,
		"DBUS_SESSION_BUS_ADDRESS": "unix:path=" + filepath.Join(folder, "none"), "CLIENT_SECRET": "the-client-secret"} {
		t.Setenv(name, value)
	}
	t.Chdir(folder)
	server := newLoginServer(t)
	config := filepath.Join(folder, "onecall.yaml")
	text := fmt.Sprintf("mcpServers:\n  my server: {url: %q, oauth: {clientId: me, clientSecret: '${CLIENT_SECRET}'}, "+
		"startTimeoutMs: 20000}\n", server.URL+"/mcp")
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) (status int, out string) {
		var stdout bytes.Buffer
		s := &streams{in: strings.NewReader(""), out: &stdout, err: &loginOutput{}, errWidth: func() int { return defaultWidth }}
		root := newRoot(s, nil)
		root.SetArgs(append(args, "--config", config))
		status = s.exitStatus(root.ExecuteContext(t.Context()))
		return status, stdout.String()
	}
	login := func() (f app.Finding) {
		status, out := run("doctor", "--json")
		var d diagnosis
		if err := json.Unmarshal([]byte(out), &d); err != nil || status != 5 || d.OK || strings.Contains(out, "the-client-secret") {
			t.Fatalf("doctor: exit status %d, want 5; %v: %s", status, err, out)
		}
		for _, one := range d.Findings {
			if one.Check == app.CheckLogin {
				f = one
			}
		}
		return f
	}
	const remedy = "onecall auth login my_server"
	if f := login(); f.Status != app.StatusFail || f.Message != "none, and the server asks for one" || f.Remedy != remedy {
		t.Errorf("before the login: got %+v, want a failure without a login, remedy %q", f, remedy)
	}
	if status, out := run("auth", "login", "my_server", "--no-browser"); status != exitOK {
		t.Fatalf("login: got status %d, want %d: %s", status, exitOK, out)
	}
	if f := login(); f.Status != app.StatusFail || f.Message != "there is one, and the server does not accept it" || f.Remedy != remedy {
		t.Errorf("with a login that the server refuses: got %+v, want a failure of the login, remedy %q", f, remedy)
	}
}
