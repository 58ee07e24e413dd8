package install

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/report"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestPackages looks for packages in the folder of the comparison and in that of the tests, and installs nothing that is in one of them.
func TestPackages(t *testing.T) {
	tests := t.TempDir()
	t.Setenv(testsVariable, tests)
	o := &report.Options{Root: t.TempDir(), Tools: t.TempDir()}
	write(t, filepath.Join(o.Root, "testdata/npm/package.json"), `{"dependencies":{"@a/b":"1.0.0","c":"2.0.0","old":"3.0.0"}}`)
	for path, version := range map[string]string{
		filepath.Join(o.Tools, "tables/node_modules/@a/b"): "1.0.0", filepath.Join(tests, "node_modules/c"): "2.0.0",
		filepath.Join(tests, "node_modules/old"): "2.9.0",
	} {
		write(t, filepath.Join(path, "package.json"), `{"version":"`+version+`"}`)
	}
	s := &report.Section{Versions: map[string]string{}}
	p, err := NewPackages(o, s)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Install(t.Context(), "@a/b", "c"); err != nil {
		t.Errorf("Install of what is installed: %v", err)
	}
	if folder, err := p.Folder("c"); err != nil || folder != filepath.Join(tests, "node_modules/c") || p.Root() != tests {
		t.Errorf("Folder: got %s, %v, want the one of the tests", folder, err)
	}
	for _, name := range []string{"old", "absent"} {
		if folder, err := p.Folder(name); err == nil {
			t.Errorf("Folder of %s, which is not installed in its version: got %s, want an error", name, folder)
		}
	}
	if len(s.Versions) != 2 || s.Versions["@a/b"] != "1.0.0" {
		t.Errorf("the versions are %v, want those of @a/b and c", s.Versions)
	}
	write(t, filepath.Join(o.Tools, "tables/package.json"), `{`)
	if err := p.Install(t.Context(), "old"); err == nil || !strings.Contains(err.Error(), "remove it") {
		t.Errorf("Install beside a broken package.json: got error %v, want one that says to remove it", err)
	}
}
