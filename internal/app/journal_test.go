package app

import (
	"os"
	"path/filepath"
	"testing"
)

// TestScope: the scope of runs is the path of the configuration file, however it is reached, and not the target of a link. With a journal
// on a server there is no scope.
func TestScope(t *testing.T) {
	t.Parallel()
	folder, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"first", "second"} {
		if err := os.Mkdir(filepath.Join(folder, name), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(folder, name), "onecall.yaml", "{}")
	}
	if err := os.Symlink("first", filepath.Join(folder, "link")); err != nil {
		t.Skip(err)
	}
	mounted := filepath.Join(folder, "mounted.yaml")
	scopeOf := func(path, store string) string {
		a := appOf(t, `{}`, serverTraits{})
		a.config.Path = path
		if store != "" {
			a.config.Journal.Store = &store
		}
		return a.Scope()
	}
	for _, content := range []string{"first", "second"} {
		_ = os.Remove(mounted)
		if err := os.Symlink(filepath.Join(content, "onecall.yaml"), mounted); err != nil {
			t.Fatal(err)
		}
		if got := scopeOf(mounted, ""); got != mounted {
			t.Errorf("linked to %s, the scope is %s, want %s", content, got, mounted)
		}
	}
	for _, test := range []struct{ path, store, want string }{
		{filepath.Join(folder, "first", "onecall.yaml"), "", filepath.Join(folder, "first", "onecall.yaml")},
		{filepath.Join(folder, "link", "onecall.yaml"), "sqlite", filepath.Join(folder, "first", "onecall.yaml")},
		{filepath.Join(folder, "second", "..", "link", "onecall.yaml"), "memory", filepath.Join(folder, "first", "onecall.yaml")},
		{filepath.Join(folder, "first", "onecall.yaml"), "postgres://db/runs", ""},
		{"", "", ""},
	} {
		if got := scopeOf(test.path, test.store); got != test.want {
			t.Errorf("%s with the store %q: scope %q, want %q", test.path, test.store, got, test.want)
		}
	}
}
