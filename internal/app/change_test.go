package app

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/config"
)

// TestNeedsRestart: settings that are read only at start need a restart as long as they are not what the server was started with.
func TestNeedsRestart(t *testing.T) {
	t.Parallel()
	remote, stdio := serverTraits{serve: true, overHTTP: true}, serverTraits{serve: true}
	for _, c := range []struct {
		use          serverTraits
		started, now string
		want         []string
	}{
		{remote, "{}", "session: {maxTokens: 5}\naccess: {stdio: read}", nil},
		{stdio, "{}", "access: {stdio: read}", []string{"/access/stdio"}},
		{stdio, "{}", "access: {stdio: read_write}", nil}, // the default
		{stdio, "access: {stdio: admin}", "access: {stdio: admin}\nlite: true", nil},
		{stdio, "access: {stdio: admin}", "lite: true", []string{"/access/stdio"}},
		{stdio, "{}", "session: {maxTokens: 5}", nil},
		{stdio, "{}", "access: {stdio: read}\nsurface: flat", []string{"/access/stdio", "/surface"}},
		{stdio, "surface: flat", "surface: flat", nil},
		{remote, "{}", "surface: flat", nil},
	} {
		started, now := appOf(t, c.started, c.use), appOf(t, c.now, c.use)
		now.settleSurface(started)
		if got := now.needRestart(&started.config.Config); !slices.Equal(got, c.want) {
			t.Errorf("%q, then %q: restart needed for %q, want %q", c.started, c.now, got, c.want)
		}
		if again := appOf(t, c.now, c.use); len(c.want) > 0 {
			again.settleSurface(now)
			if got := again.needRestart(&started.config.Config); !slices.Equal(got, c.want) {
				t.Errorf("%q, then %q twice: restart needed for %q, want %q", c.started, c.now, got, c.want)
			}
		}
	}
	flagged := appOf(t, "surface: flat", stdio)
	flagged.process.Surface = "hybrid"
	flagged.settleSurface(appOf(t, "{}", stdio))
	if got := flagged.needRestart(&config.Config{}); got != nil {
		t.Errorf("a flag names the surface: restart needed for %q, want none", got)
	}
}

// TestStoredResults: results are found again if the store is the same.
func TestStoredResults(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		before, after string
		want          bool
	}{
		{"{}", "results: {store: memory, ttl: 1h, pageSize: 5}", true},
		{"{}", "results: {maxBytes: 5MB}", true},
		{"{}", "results: {store: disk}", false},
		{"results: {store: disk}", "results: {store: disk, maxBytes: 5MB}", true},
		{inPostgres("u:one@h/1"), inPostgres("u:two@h/1"), true},
		{inPostgres("u:one@h/1"), inPostgres("u:one@h/2"), false},
		{inPostgres("u:one@h/1"), inPostgres("u:one@h/1") + "budget: {maxTotalTokens: 500}", true},
		{inPostgres("u:one@h/1"), "results: {store: disk}", false},
	} {
		serves := serverTraits{serve: true}
		if got := appOf(t, c.after, serves).storeIdentity() == appOf(t, c.before, serves).storeIdentity(); got != c.want {
			t.Errorf("%s, then %s: same store is %t, want %t", c.before, c.after, got, c.want)
		}
	}
}

// inPostgres returns a configuration whose results are in a database.
func inPostgres(where string) string {
	return "results: {store: postgres}\njournal: {store: 'postgres://" + where + "', key: '${TEST_JOURNAL_KEY}'}\n"
}

// TestCheckLoadable: an empty or missing configuration does not replace the served one.
func TestCheckLoadable(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for name, c := range map[string]struct{ text, want string }{
		"blanks":          {" \n\t\n", " is empty (for a configuration without settings, write {})"},
		"empty":           {"", " is empty (for a configuration without settings, write {})"},
		"a setting":       {"lite: true\n", ""},
		"trailing blanks": {"lite: true\n" + strings.Repeat(" ", 100_000), ""},
		"too large":       {strings.Repeat(" ", config.MaxBytes+1), ""}, // reported when it is read
	} {
		path, got := write(t, folder, name, c.text), ""
		if err := checkLoadable(path); err != nil {
			got = fault.Message(err)
		}
		if want := c.want; want != "" && got != path+want || want == "" && got != "" {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
	if got := fault.Message(checkLoadable(folder)); got != folder+" is not a regular file, and cannot be read again" {
		t.Errorf("checkLoadable of a folder: got %q, want a fault saying that it is not a regular file", got)
	}
	if none := filepath.Join(folder, "none"); !strings.HasPrefix(fault.Message(checkLoadable(none)), none+" cannot be read (") {
		t.Errorf("checkLoadable of a missing file: got %v, want a fault saying that it cannot be read", checkLoadable(none))
	}
}
