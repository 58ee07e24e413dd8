package files_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps/source/files"
)

type statResult struct {
	Path, Type, Modified, Link, Digest string
	Size                               *int64
}

// TestStat: files, folders, and links to a file, to nothing, and out of the root.
func TestStat(t *testing.T) {
	t.Parallel()
	s, root := open(t, map[string]string{"dir/file": "text"})
	must(t, os.Chtimes(filepath.Join(root, "dir", "file"), time.Time{}, time.Date(2026, 2, 3, 4, 5, 6, 7e6, time.FixedZone("", 3600))))
	for name, target := range map[string]string{"link": "dir/file", "broken": "nothing", "out": "/", "loop": "loop"} {
		must(t, os.Symlink(target, filepath.Join(root, name)))
	}
	for path, want := range map[string]statResult{
		"dir/file": {Type: "file"}, "dir": {Type: "dir"}, "link": {Type: "file", Link: "dir/file"},
		"broken": {Type: "link", Link: "nothing"}, "out": {Type: "link", Link: "/"}, "loop": {Type: "link", Link: "loop"},
	} {
		got := do[statResult](t, s, "fs.stat", args(t, "path", path))
		if got.Path != path || got.Type != want.Type || got.Link != want.Link || (got.Size != nil) != (want.Type == "file") {
			t.Errorf("%s: got %+v, want %+v", path, got, want)
		}
	}
	got := do[statResult](t, s, "fs.stat", `{"path":"link","digest":true}`)
	if want := do[catDigest](t, s, "fs.cat", `{"path":"dir/file","digest":true}`).Digest; got.Digest != want || len(want) != 32 || *got.Size != 4 ||
		got.Modified != "2026-02-03T03:05:06.007Z" {
		t.Errorf("got %+v, want 4 bytes of the digest %q that fs.cat gives, modified at 2026-02-03T03:05:06.007Z", got, want)
	}
	for _, path := range []string{"dir", "broken", "out", "loop"} {
		if f := mustFailCoded(t, s, "fs.stat", args(t, "path", path, "digest", true)); f.Message == "" {
			t.Errorf("%s: the failure says nothing", path)
		}
	}
	large := openAt(t, &files.Options{Root: root, MaxFileBytes: 1024})
	must(t, os.WriteFile(filepath.Join(root, "large"), make([]byte, 2000), 0o644))
	mustFail(t, large, "fs.cat", `{"path":"large","head":1,"digest":true}`, fault.LimitExceeded)
	if got := do[statResult](t, large, "fs.stat", `{"path":"large","digest":true}`); len(got.Digest) != 32 {
		t.Errorf("got %+v, want a digest", got)
	}
}

// catDigest is the digest that fs.cat gives.
type catDigest struct{ Digest string }

// mustFailCoded calls a function that must fail with any code.
func mustFailCoded(t tester, s *files.Source, fn, args string) *fault.Error {
	t.Helper()
	raw, err := rawCall(t, s, fn, args)
	f, coded := fault.As(err)
	if !coded {
		t.Fatalf("%s %s: got %s, want a failure", fn, args, raw)
	}
	return f
}
