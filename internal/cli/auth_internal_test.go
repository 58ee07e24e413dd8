package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestAuth logs in, reads the status and logs out, as a user at a terminal does.
func TestAuth(t *testing.T) {
	// Not parallel: the login is stored in the folders of this environment. Without a bus there is no keyring, so it is a file.
	folder := t.TempDir()
	t.Setenv("HOME", folder)
	t.Setenv("AppData", folder)
	t.Setenv("XDG_CONFIG_HOME", filepath.Join(folder, ".config"))
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path="+filepath.Join(folder, "none"))
	t.Setenv("XDG_RUNTIME_DIR", folder)
	t.Setenv("CLIENT_SECRET", "the-client-secret")
	server := newLoginServer(t)
	config := filepath.Join(folder, "onecall.yaml")
	text := fmt.Sprintf("mcpServers:\n  my server: {url: %q, oauth: {clientId: me, clientSecret: '${CLIENT_SECRET}', scopes: [a, "+
		"b]}}\n  other: {url: 'https://mcp.example.com'}\n", server.URL+"/mcp")
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) (status int, out, err string) {
		var stdout bytes.Buffer
		stderr := &loginOutput{}
		s := &streams{in: strings.NewReader(""), out: &stdout, err: stderr, errWidth: func() int { return defaultWidth }}
		root := newRoot(s, nil)
		root.SetArgs(append(args, "--config", config))
		status = s.exitStatus(root.ExecuteContext(t.Context()))
		return status, stdout.String(), stderr.String()
	}
	if status, out, _ := run("auth", "status", "my server"); status != exitFailed || !strings.Contains(out, "none") {
		t.Errorf("status before the login: got %d, %q, want %d and none", status, out, exitFailed)
	}
	if status, out, errors := run("auth", "login", "my server", "--no-browser"); status != exitOK || out != "" ||
		!strings.Contains(errors, "logged in to my server; the login is stored in the ") {
		t.Fatalf("login: got %d, %q, %q, want %d, no output and the message of the login", status, out, errors, exitOK)
	}
	if server.secret != "the-client-secret" || server.authorized.Get("scope") != "a b" || server.authorized.Get("client_id") != "me" {
		t.Errorf("the server got secret %q, %v, want the-client-secret, scope a b, client_id me", server.secret, server.authorized)
	}
	status, out, _ := run("auth", "status", "--json")
	var list loginList
	if err := json.Unmarshal([]byte(out), &list); err != nil || status != exitOK || len(list.Sources) != 2 {
		t.Fatalf("status: got %d, %v, %s, want %d and 2 servers", status, err, out, exitOK)
	}
	mine, other := list.Sources[0], list.Sources[1]
	if mine.Source != "my server" || !mine.LoggedIn || !mine.Renews || mine.Expires == nil ||
		time.Until(*mine.Expires) < 50*time.Minute || mine.Issuer != server.URL || mine.Store == "" ||
		other.Source != "other" || other.LoggedIn || other.Store != "" {
		t.Errorf("got status %s, want my server logged in for an hour, and not other", out)
	}
	if status, out, _ := run("auth", "status", "my_server"); status != exitOK || !strings.Contains(out, "yes, renews itself") ||
		strings.Contains(out, "other") {
		t.Errorf("status of my_server: got %d, %q, want %d and a login that renews itself", status, out, exitOK)
	}
	if status, _, errors := run("auth", "logout", "my server"); status != exitOK ||
		!strings.Contains(errors, "logged out of my server") || server.revoked == 0 {
		t.Errorf("logout: got %d, %q, %d revocations, want %d and at least one", status, errors, server.revoked, exitOK)
	}
	if status, _, _ := run("auth", "status", "my server"); status != exitFailed {
		t.Errorf("status after the logout: %d, want %d", status, exitFailed)
	}
	server.Close()
	if status, out, errors := run("auth", "login", "my server", "--no-browser"); status != 5 || out != "" ||
		!strings.Contains(errors, "my_server") || strings.Contains(errors, "the-client-secret") {
		t.Errorf("login to a closed server: got %d, %q, %q, want 5, no output and an error that names my_server", status, out, errors)
	}
}
