//go:build unix

package files_test

import (
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps/source/files"
)

const secret = "the-secret-outside-of-the-root"

// openWithLinks makes a root next to a folder with a secret, and links of all kinds between them.
func openWithLinks(t testing.TB) (*files.Source, string) {
	t.Helper()
	base := t.TempDir()
	root := filepath.Join(base, "root")
	writeTree(t, base, map[string]string{"secret.txt": secret, "elsewhere/secret.txt": secret, "root/in/file.txt": "inside\n",
		"root/top.txt": "top\n"})
	for symlink, target := range map[string]string{
		"out.txt": "../secret.txt", "absolute.txt": filepath.Join(base, "secret.txt"), "outdir": "../elsewhere", "up": "..",
		"in/deep": "../../elsewhere", "inside.txt": "in/file.txt", "insidedir": "in", "loop": "loop", "dangling": "nothing", "in/self": ".",
		"absolutein": filepath.Join(root, "top.txt"),
	} {
		must(t, os.Symlink(target, filepath.Join(root, symlink)))
	}
	return openAt(t, &files.Options{Root: root}), root
}

func TestPathsOutside(t *testing.T) {
	t.Parallel()
	s, root := openWithLinks(t)
	for _, path := range []string{"..", "../secret.txt", "in/../../secret.txt", "/etc/passwd", "/", filepath.Dir(root),
		root + "/../secret.txt", root + "x",
		"out.txt", "absolute.txt", "outdir", "outdir/secret.txt", "up", "up/secret.txt", "in/deep/secret.txt", "insidedir/deep/secret.txt",
		"absolutein"} {
		for fn, more := range map[string][]any{"fs.list": nil, "fs.find": {"pattern", "*"}, "fs.grep": {"pattern", "secret"}, "fs.cat": nil} {
			f := mustFailWith(t, s, fn, args(t, append(more, "path", path)...), fault.Denied)
			if f.At != "/path" || strings.Contains(f.Message, "elsewhere") || strings.Contains(f.Message, secret) {
				t.Errorf("%s %q: got a fault at %q: %s, want /path, and nothing of what is outside", fn, path, f.At, f.Message)
			}
		}
	}
	for fn, args := range map[string]string{"fs.find": `{"pattern":"**","type":"any"}`, "fs.grep": `{"pattern":"secret"}`,
		"fs.list": `{"depth":20}`} {
		raw, err := rawCall(t, s, fn, args)
		if err != nil || strings.Contains(string(raw), secret) || strings.Contains(string(raw), "outdir/secret") {
			t.Errorf("%s shows a file outside the root, or fails: %s, %v", fn, raw, err)
		}
	}
}

func TestPathsInside(t *testing.T) {
	t.Parallel()
	s, root := openWithLinks(t)
	for path, want := range map[string]string{
		"in/file.txt": "in/file.txt", "./in//file.txt": "in/file.txt", "in/../in/file.txt": "in/file.txt", root + "/in/file.txt": "in/file.txt",
		"inside.txt": "inside.txt", "insidedir/file.txt": "insidedir/file.txt", "in/self/self/file.txt": "in/self/self/file.txt",
		"in/file.txt/": "in/file.txt",
	} {
		if got := do[catResult](t, s, "fs.cat", args(t, "path", path)); got.Path != want || *got.Text != "inside\n" {
			t.Errorf("%s: got %+v, want %s with inside", path, got, want)
		}
	}
	for _, path := range []string{root, root + "/", ".", "./", "in/.."} {
		if got := do[listResult](t, s, "fs.list", args(t, "path", path)); got.Path != "." || got.Count == 0 {
			t.Errorf("%s: got %+v, want . with its files", path, got)
		}
	}
	// A root that is itself reached by a link can be named in both ways.
	alias := filepath.Join(t.TempDir(), "alias")
	must(t, os.Symlink(root, alias))
	linked := openAt(t, &files.Options{Root: alias})
	for _, path := range []string{alias + "/top.txt", root + "/top.txt"} {
		do[catResult](t, linked, "fs.cat", args(t, "path", path))
	}
}

func TestBadPaths(t *testing.T) {
	t.Parallel()
	s, _ := openWithLinks(t)
	for path, code := range map[string]fault.Code{
		"": fault.BadArguments, "a\x00b": fault.BadArguments, strings.Repeat("x/", 3000): fault.BadArguments,
		strings.Repeat("x", 300): fault.FunctionFailed, "loop": fault.FunctionFailed, "dangling": fault.FunctionFailed,
		"nowhere": fault.FunctionFailed, "top.txt/x": fault.FunctionFailed,
	} {
		for fn, more := range map[string][]any{"fs.list": nil, "fs.find": {"pattern", "*"}, "fs.grep": {"pattern", "x"}, "fs.cat": nil} {
			mustFail(t, s, fn, args(t, append(more, "path", path)...), code)
		}
	}
	f := mustFailWith(t, s, "fs.cat", `{"path":"in/fil.txt"}`, fault.FunctionFailed)
	if len(f.Nearest) == 0 || f.Nearest[0] != "file.txt" || !strings.Contains(f.Message, "file.txt") {
		t.Errorf("in/fil.txt: nearest %q, %s, want file.txt first and in the message", f.Nearest, f.Message)
	}
	f = mustFailWith(t, s, "fs.cat", `{"path":"inn/x/y/file.txt"}`, fault.FunctionFailed)
	if !strings.Contains(f.Message, `no "inn"`) {
		t.Errorf("the message does not name the missing folder: %s", f.Message)
	}
	mustFail(t, s, "fs.cat", `{"path":"in"}`, fault.FunctionFailed)
	mustFail(t, s, "fs.list", `{"path":"top.txt"}`, fault.FunctionFailed)
	mustFail(t, s, "fs.find", `{"path":"top.txt","pattern":"*"}`, fault.FunctionFailed)
}

// TestSpecialFiles: only regular files are read, and no other file makes a call wait.
func TestSpecialFiles(t *testing.T) {
	t.Parallel()
	s, root := open(t, map[string]string{"file": "needle\n", "dir/file": ""})
	must(t, syscall.Mkfifo(filepath.Join(root, "fifo"), 0o644))
	must(t, os.Symlink("/dev/null", filepath.Join(root, "null")))
	must(t, os.Symlink("fifo", filepath.Join(root, "tofifo")))
	short, err := os.MkdirTemp("", "s") // a socket's path must be short
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(short) })
	l, err := net.Listen("unix", filepath.Join(short, "s"))
	must(t, err)
	defer l.Close()
	must(t, os.Rename(filepath.Join(short, "s"), filepath.Join(root, "socket")))

	for _, name := range []string{"fifo", "tofifo", "socket"} {
		mustFail(t, s, "fs.cat", args(t, "path", name), fault.FunctionFailed)
		mustFail(t, s, "fs.grep", args(t, "path", name, "pattern", "x"), fault.FunctionFailed)
		mustFail(t, s, "fs.list", args(t, "path", name), fault.FunctionFailed)
		mustFail(t, s, "fs.cat", args(t, "path", name+"/x"), fault.FunctionFailed)
	}
	mustFail(t, s, "fs.cat", `{"path":"null"}`, fault.Denied)
	types := map[string]string{}
	for _, e := range do[listResult](t, s, "fs.list", `{}`).Entries {
		types[e.Name] = e.Type
	}
	for name, want := range map[string]string{"fifo": "other", "socket": "other", "null": "link", "tofifo": "link", "file": "file",
		"dir": "dir"} {
		if types[name] != want {
			t.Errorf("%s is listed as %q, want %q", name, types[name], want)
		}
	}
	if got := do[grepResult](t, s, "fs.grep", `{"pattern":"needle"}`); got.Count != 1 || got.Skipped != nil {
		t.Errorf("got %+v, want one match and nothing skipped", got)
	}
}

func TestUnreadable(t *testing.T) {
	t.Parallel()
	if os.Getuid() == 0 {
		t.Skip("the superuser reads files whatever their permissions are")
	}
	s, root := open(t, map[string]string{"file": "needle\n", "closed": "needle\n", "closeddir/file": "needle\n"})
	must(t, os.Chmod(filepath.Join(root, "closed"), 0))
	must(t, os.Chmod(filepath.Join(root, "closeddir"), 0))
	t.Cleanup(func() { _ = os.Chmod(filepath.Join(root, "closeddir"), 0o755) })
	if got := do[grepResult](t, s, "fs.grep", `{"pattern":"needle"}`); got.Count != 1 || len(got.Skipped) != 1 ||
		got.Skipped[0] != (skip{"unreadable", 2, "closed"}) {
		t.Errorf("got %+v, want one match and two files skipped", got)
	}
	mustFail(t, s, "fs.cat", `{"path":"closed"}`, fault.Denied)
}

// TestChangingTree runs the functions while a name changes from a file to a link that leads out, a FIFO and a folder, and back: no call may
// hang or show anything outside the root.
func TestChangingTree(t *testing.T) {
	t.Parallel()
	s, root := openWithLinks(t)
	name := filepath.Join(root, "in", "changing")
	stop := make(chan struct{})
	var changing sync.WaitGroup
	changing.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			os.RemoveAll(name)
			switch i % 5 {
			case 0:
				_ = os.WriteFile(name, []byte("inside\n"), 0o644)
			case 1:
				_ = os.Symlink("../../secret.txt", name)
			case 2:
				_ = syscall.Mkfifo(name, 0o644)
			case 3:
				_ = os.Mkdir(name, 0o755)
			case 4:
				_ = os.Symlink("../../elsewhere", name)
			}
			runtime.Gosched()
		}
	})
	var calls sync.WaitGroup
	for fn, args := range map[string]string{"fs.cat": `{"path":"in/changing"}`, "fs.grep": `{"pattern":"e"}`,
		"fs.list": `{"path":"in/changing"}`,
		"fs.find": `{"pattern":"*","type":"any"}`} {
		calls.Go(func() {
			for range 200 {
				raw, err := rawCall(t, s, fn, args)
				if strings.Contains(string(raw), secret) || strings.Contains(string(raw), "changing/secret") {
					t.Errorf("%s shows a file outside the root: %s", fn, raw)
				}
				if code := fault.CodeOf(err); err != nil && code != fault.FunctionFailed && code != fault.Denied {
					t.Errorf("%s: %v, want function_failed or denied", fn, err)
				}
			}
		})
	}
	ended := make(chan struct{})
	go func() { calls.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Error("the calls did not return")
	}
	close(stop)
	changing.Wait()
}

// FuzzPath calls every function with any path: it succeeds or fails with a code, and never shows anything outside the root.
func FuzzPath(f *testing.F) {
	s, root := openWithLinks(f)
	for _, path := range []string{"", ".", "..", "/", "in/file.txt", "../secret.txt", "up/secret.txt", "in/deep/../secret.txt", root,
		root + "/../secret.txt",
		"a\x00", "\xff", strings.Repeat("../", 100) + "etc/passwd", "in/../in/./file.txt", `..\secret.txt`, "//in", "~/x", "loop/loop",
		"C:\\x", "CON"} {
		f.Add(path)
	}
	f.Fuzz(func(t *testing.T, path string) {
		for fn, more := range map[string][]any{"fs.list": nil, "fs.find": {"pattern", "*"}, "fs.grep": {"pattern", "s"}, "fs.cat": nil} {
			raw, err := rawCall(t, s, fn, args(t, append(more, "path", path)...))
			if strings.Contains(string(raw), secret) || (err != nil && strings.Contains(err.Error(), secret) && !strings.Contains(path, secret)) {
				t.Fatalf("%s %q shows a file outside the root: %s %v", fn, path, raw, err)
			}
		}
	})
}
