package config

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/onecall-mcp/onecall/fault"
)

func writeFile(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestFindConfig(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	user := filepath.Join(dir, "user")
	t.Setenv("XDG_CONFIG_HOME", user)
	t.Setenv("HOME", dir)
	t.Setenv("AppData", user)
	expect := func(want string) {
		t.Helper()
		if got, f := Find(""); got != want || f != nil {
			t.Errorf("Find: %q, %v; want %q", got, f, want)
		}
	}
	expect("")
	folder, err := os.UserConfigDir()
	if err != nil {
		t.Fatal(err)
	}
	folder = filepath.Join(folder, "onecall")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	expect("")
	inUser := writeFile(t, folder, "onecall.json", "{}")
	expect(inUser)
	writeFile(t, dir, "onecall.json", `{"fs":{"root":"sub"}}`)
	expect("onecall.json")
	if c, faults := Load(filepath.Join(dir, "onecall.json")); len(faults) > 0 || *c.FS.Root != filepath.Join(dir, "sub") {
		t.Errorf("fs.root is not resolved against the file's folder: %+v, %v", c.FS, faults)
	}
	writeFile(t, dir, "onecall.yaml", "")
	if _, f := Find(""); f == nil || f.Code != fault.BadRequest {
		t.Errorf("Find with two configurations: %v, want bad_request", f)
	}
	if got, f := Find("x.yaml"); got != "x.yaml" || f != nil {
		t.Errorf("Find of a named file: got %q, %v, want x.yaml", got, f)
	}
}
