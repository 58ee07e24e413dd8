//go:build unix

package clients

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestNoPipe: a pipe in the place of a client's file is refused, and not waited for.
func TestNoPipe(t *testing.T) {
	t.Parallel()
	l := newLayout(t, "cursor")
	file := l.homePath(".cursor/mcp.json")
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(file, 0o600); err != nil {
		t.Fatal(err)
	}
	if p, err := l.machine.install(l.client, l.homePath("onecall.yaml"), "/usr/local/bin/onecall", os.LookupEnv); err == nil {
		t.Errorf("an installation into a pipe is planned: %s", p.Report())
	}
	im := &Import{lookup: os.LookupEnv}
	if err := im.read(clientFile{client: "Cursor", path: file}); err == nil || len(im.problems) != 1 {
		t.Errorf("%v, %q: want the problem reported", err, im.problems)
	}
}
