package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/internal/config"
)

// appOf is an app as far as it is known by its configuration.
func appOf(t *testing.T, text string, u use) *app {
	t.Helper()
	c, faults := config.Parse("onecall.yaml", []byte(text), os.LookupEnv)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	return &app{config: c, use: u}
}

// TestNeedsRestart: what is not carried out is told of for as long as it is so, compared with what the server was started with.
func TestNeedsRestart(t *testing.T) {
	t.Parallel()
	remote, stdio := use{serve: true, anySurface: true}, use{serve: true}
	for _, c := range []struct {
		use                use
		began, before, now string
		want               []string
	}{
		{remote, "{}", "{}", "session: {maxTokens: 5}\naccess: {stdio: read}", nil},
		{stdio, "{}", "{}", "access: {stdio: read}", []string{"/access/stdio"}},
		{stdio, "{}", "access: {stdio: read}", "access: {stdio: read}\nlite: true", []string{"/access/stdio"}},
		{stdio, "access: {stdio: admin}", "access: {stdio: read}", "access: {stdio: admin}", nil},
		{stdio, "{}", "{}", "session: {maxTokens: 5}", nil},
	} {
		began := appOf(t, c.began, c.use).config.Settings
		if got := compare(began, appOf(t, c.before, c.use), appOf(t, c.now, c.use)).later; !slices.Equal(got, c.want) {
			t.Errorf("%q, then %q, then %q: %q needs a restart, want %q", c.began, c.before, c.now, got, c.want)
		}
	}
}

// TestKeptResults: what was kept is there where it lies.
func TestKeptResults(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		before, after string
		want          bool
	}{
		{"{}", "results: {store: memory, ttl: 1h, pageSize: 5}", true},
		{"{}", "results: {maxBytes: 5MB}", true},
		{"{}", "results: {store: disk}", false},
		{"results: {store: disk}", "results: {store: disk, maxBytes: 5MB}", true},
		{"results: {store: 'redis://h/1'}", "results: {store: 'redis://h/1', maxBytes: 5MB}", true},
		{"results: {store: 'redis://h/1'}", "results: {store: 'redis://h/2'}", false},
		{"results: {store: 'redis://u:one@h/1'}", "results: {store: 'redis://u:two@h/1'}", true},
		{"results: {store: 'redis://h/1'}", "results: {store: memory}", false},
	} {
		if got := storePlace(&appOf(t, c.after, use{}).config.Results) == storePlace(&appOf(t, c.before, use{}).config.Results); got != c.want {
			t.Errorf("%s, then %s: kept is %v", c.before, c.after, got)
		}
	}
}

// TestLoadable: a configuration that is empty, or is not there, is not loaded in the place of another.
func TestLoadable(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for name, c := range map[string]struct{ text, want string }{
		"blanks":         {" \n\t\n", " is empty (for a configuration that says nothing write {})"},
		"nothing":        {"", " is empty (for a configuration that says nothing write {})"},
		"a setting":      {"lite: true\n", ""},
		"blanks follow":  {"lite: true\n" + strings.Repeat(" ", 100_000), ""},
		"more than most": {strings.Repeat(" ", config.MaxBytes+1), ""}, // which is told when it is read
	} {
		path, got := write(t, folder, name, c.text), ""
		if err := loadable(path); err != nil {
			got = message(err)
		}
		if want := c.want; want != "" && got != path+want || want == "" && got != "" {
			t.Errorf("%s: %q", name, got)
		}
	}
	if got := message(loadable(folder)); got != folder+" is no regular file, and cannot be read again" {
		t.Errorf("a folder: %q", got)
	}
	if none := filepath.Join(folder, "none"); !strings.HasPrefix(message(loadable(none)), none+" cannot be read (") {
		t.Errorf("nothing: %v", loadable(none))
	}
}

// TestNotifierIsAlone: what the process starts does not speak to its service manager.
func TestNotifierIsAlone(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "/nonexistent/socket")
	notifier()("READY=1")
	if socket, there := os.LookupEnv("NOTIFY_SOCKET"); there {
		t.Errorf("NOTIFY_SOCKET is %q after it was read", socket)
	}
}
