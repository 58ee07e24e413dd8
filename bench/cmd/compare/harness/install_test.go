package harness

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
)

// TestPackages looks for packages in the folder of the comparison and in that of the tests, and installs nothing that is in one of them.
func TestPackages(t *testing.T) {
	tests := t.TempDir()
	t.Setenv("ONECALL_TEST_NPM", tests)
	b := testBench(t)
	b.Root = t.TempDir()
	for path, text := range map[string]string{
		filepath.Join(b.Root, "testdata/npm"):           `{"dependencies":{"@a/b":"1.0.0","c":"2.0.0","old":"3.0.0"}}`,
		filepath.Join(b.Tools, "npm/node_modules/@a/b"): `{"version":"1.0.0"}`,
		filepath.Join(tests, "node_modules/c"):          `{"version":"2.0.0"}`,
		filepath.Join(tests, "node_modules/old"):        `{"version":"2.9.0"}`,
	} {
		WriteFile(filepath.Join(path, "package.json"), []byte(text))
	}
	if b.Packages(t.Context(), "@a/b", "c", "old"); len(b.Comments) > 0 {
		t.Errorf("Packages of what is installed, or not small: %v", b.Comments)
	}
	if folder := b.Package("c"); folder != filepath.Join(tests, "node_modules/c") || b.PackagesRoot() != tests {
		t.Errorf("Package: got %s, want the one of the tests", folder)
	}
	for _, name := range []string{"old", "absent"} {
		if err := Try(func() { b.Package(name) }); !errors.Is(err, ErrNotHere) {
			t.Errorf("Package of %s, which is not installed in its version: got error %v, want %v", name, err, ErrNotHere)
		}
	}
	if len(b.Versions) != 2 || b.Versions["@a/b"] != "1.0.0" {
		t.Errorf("the versions are %v, want those of @a/b and c", b.Versions)
	}
}

func TestNotInstalled(t *testing.T) {
	t.Setenv("ONECALL_TEST_BIN", "")
	b := testBench(t)
	if err := Try(func() { b.Go(t.Context(), "mcp-grafana") }); err == nil || !strings.Contains(err.Error(), "the short form installs only what is small") {
		t.Errorf("Go: got error %v, want that the short form installs only what is small", err)
	}
	if len(b.Versions) > 0 {
		t.Errorf("versions %v, want none", b.Versions)
	}
}
