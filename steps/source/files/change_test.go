package files_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/source/files"
)

// change calls a function that writes. undo is the call that takes it back; nil: none was reported.
func change(t tester, s *files.Source, fn, args string) (undo *steps.Undo, err error) {
	t.Helper()
	ctx := steps.WithUndo(context.Background(), func(u *steps.Undo) error { undo = u; return nil })
	if _, err = function(s, fn).Call(ctx, []byte(args)); err != nil {
		undo = nil // it is dropped
		if _, coded := fault.As(err); !coded {
			t.Fatalf("%s %s: the error has no code: %v", fn, args, err)
		}
	}
	return undo, err
}

// snapshot returns what is below a folder: the content of each file after its mode, "/" for a folder.
func snapshot(t tester, root string) map[string]string {
	t.Helper()
	tree := map[string]string{}
	must(t, filepath.WalkDir(root, func(at string, e fs.DirEntry, err error) error {
		if err != nil || at == root {
			return err
		}
		rel, err := filepath.Rel(root, at)
		if err != nil || e.IsDir() {
			tree[filepath.ToSlash(rel)] = "/"
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		text, err := os.ReadFile(at)
		tree[filepath.ToSlash(rel)] = fmt.Sprintf("%03o ", info.Mode().Perm()) + string(text)
		return err
	}))
	return tree
}

// randomChange draws a call, and returns the tree that it leaves if it succeeds.
func randomChange(t *rapid.T, tree map[string]string) (fn, arguments string, after map[string]string) {
	name := rapid.SampledFrom([]string{"a", "b", "d", "d/a", "d/e", "d/e/a", "f/g/h"})
	at, after := name.Draw(t, "path"), maps.Clone(tree)
	switch rapid.IntRange(0, 4).Draw(t, "function") {
	case 0:
		text, mode := rapid.SampledFrom([]string{"", "one", "two\ntwo\n", "\xff\x00", "<é>"}).Draw(t, "text"), ""
		pairs := []any{"path", at, "data", base64.StdEncoding.EncodeToString([]byte(text))}
		if before, _, found := strings.Cut(after[at], " "); found {
			mode = before
		}
		if rapid.Bool().Draw(t, "setMode") || mode == "" {
			mode = rapid.SampledFrom([]string{"600", "755"}).Draw(t, "mode")
			pairs = append(pairs, "mode", mode)
		}
		after[at] = mode + " " + text
		return "fs.write", args(t, pairs...), after
	case 1:
		old, count := rapid.SampledFrom([]string{"o", "two", "é"}).Draw(t, "old"), rapid.IntRange(1, 2).Draw(t, "count")
		mode, text, _ := strings.Cut(after[at], " ")
		after[at] = mode + " " + strings.ReplaceAll(text, old, "<new>")
		return "fs.edit", args(t, "path", at, "old", old, "new", "<new>", "count", count), after
	case 2:
		to := name.Draw(t, "to")
		for path, text := range tree {
			if path == at || strings.HasPrefix(path, at+"/") {
				delete(after, path)
				after[to+path[len(at):]] = text
			}
		}
		return "fs.move", args(t, "from", at, "to", to), after
	case 3:
		delete(after, at)
		return "fs.remove", args(t, "path", at), after
	}
	arguments = args(t, "path", at)
	for ; at != "."; at = path.Dir(at) {
		after[at] = "/"
	}
	return "fs.mkdir", arguments, after
}

// TestChangesAndUndos: a call that succeeds leaves the tree that a model says, one that fails changes nothing, and the undos in reverse order
// lead back over the same trees.
func TestChangesAndUndos(t *testing.T) {
	t.Parallel()
	base, n := t.TempDir(), 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		root := filepath.Join(base, fmt.Sprint(n))
		must(t, os.MkdirAll(filepath.Join(root, "d"), 0o755))
		must(t, os.WriteFile(filepath.Join(root, "a"), []byte("one two"), 0o640))
		s, err := files.New(&files.Options{Root: root, Write: []string{"."}})
		must(t, err)
		defer s.Close()
		type done struct {
			before map[string]string
			undo   *steps.Undo
		}
		var all []done
		for range rapid.IntRange(1, 12).Draw(t, "changes") {
			before := snapshot(t, root)
			fn, arguments, want := randomChange(t, before)
			undo, err := change(t, s, fn, arguments)
			if err != nil {
				want = before
			}
			if got := snapshot(t, root); !maps.Equal(got, want) {
				t.Fatalf("%s %s (%v)\nof   %q\ngave %q\nwant %q", fn, arguments, err, before, got, want)
			}
			switch {
			case err == nil && undo != nil:
				all = append(all, done{before, undo})
			case err == nil && !maps.Equal(before, want):
				t.Fatalf("%s %s has no undo", fn, arguments)
			}
		}
		for _, d := range slices.Backward(all) {
			if _, err := change(t, s, d.undo.Function, string(d.undo.Args)); err != nil {
				t.Fatalf("%s %s: %v", d.undo.Function, d.undo.Args, err)
			}
			if got := snapshot(t, root); !maps.Equal(got, d.before) {
				t.Fatalf("%s %s\ngave %q\nwant %q", d.undo.Function, d.undo.Args, got, d.before)
			}
		}
	})
}

// TestUndoLeavesOthersWork: an undo does not touch what another program has changed since.
func TestUndoLeavesOthersWork(t *testing.T) {
	t.Parallel()
	_, root := open(t, map[string]string{"edited": "one", "replaced": "one", "removed": "one", "moved": "one", "folder/": ""})
	s := openAt(t, &files.Options{Root: root, Write: []string{"."}})
	for _, c := range []struct {
		fn, args, other string // other: the file that the other program writes
		code            fault.Code
	}{
		{"fs.write", `{"path":"created","text":"two"}`, "created", fault.Busy},
		{"fs.write", `{"path":"replaced","text":"two"}`, "replaced", fault.Busy},
		{"fs.edit", `{"path":"edited","old":"one","new":"two"}`, "edited", fault.Busy},
		{"fs.remove", `{"path":"removed"}`, "removed", fault.Busy},
		{"fs.move", `{"from":"moved","to":"there"}`, "there", fault.Busy},
		{"fs.mkdir", `{"path":"made/here"}`, "made/here/file", fault.FunctionFailed},
		{"fs.remove", `{"path":"folder"}`, "folder", fault.FunctionFailed},
	} {
		undo, err := change(t, s, c.fn, c.args)
		must(t, err)
		must(t, os.WriteFile(filepath.Join(root, c.other), []byte("others' work"), 0o644))
		if _, err := change(t, s, undo.Function, string(undo.Args)); fault.CodeOf(err) != c.code {
			t.Errorf("%s: the undo gives %v, want %s", c.fn, err, c.code)
		}
		if text, err := os.ReadFile(filepath.Join(root, c.other)); string(text) != "others' work" {
			t.Errorf("%s: the undo leaves %q, %v", c.fn, text, err)
		}
	}
}

// TestNoUndo: what asks for no undo has none, and may replace and remove files that are too large for one.
func TestNoUndo(t *testing.T) {
	t.Parallel()
	_, root := open(t, map[string]string{"large": strings.Repeat("x", 2000)})
	s := openAt(t, &files.Options{Root: root, Write: []string{"."}, MaxKeptBytes: 1000})
	for _, c := range [][2]string{{"fs.write", `{"path":"large","text":""%s}`}, {"fs.remove", `{"path":"large"%s}`}} {
		must(t, os.WriteFile(filepath.Join(root, "large"), []byte(strings.Repeat("x", 2000)), 0o644))
		if _, err := change(t, s, c[0], fmt.Sprintf(c[1], "")); fault.CodeOf(err) != fault.LimitExceeded || !strings.Contains(err.Error(), "undo") {
			t.Errorf("%s of a large file: got %v, want limit_exceeded with the remedy", c[0], err)
		}
		if undo, err := change(t, s, c[0], fmt.Sprintf(c[1], `,"undo":"none"`)); err != nil || undo != nil {
			t.Errorf("%s without an undo: got %v, %v", c[0], undo, err)
		}
	}
	for fn, args := range map[string]string{"fs.write": args(t, "path", "new", "text", strings.Repeat("x", 1001)),
		"fs.edit": args(t, "path", "small", "old", "x", "new", strings.Repeat("x", 1001))} {
		must(t, os.WriteFile(filepath.Join(root, "small"), []byte("x"), 0o644))
		if _, err := change(t, s, fn, args); fault.CodeOf(err) != fault.LimitExceeded {
			t.Errorf("%s of a large text: got %v, want limit_exceeded", fn, err)
		}
	}
}

// TestUndoThatIsNotKept: if the undo of a call cannot be kept, the call changes nothing.
func TestUndoThatIsNotKept(t *testing.T) {
	t.Parallel()
	_, root := open(t, map[string]string{"file": "one", "folder/": ""})
	s := openAt(t, &files.Options{Root: root, Write: []string{"."}})
	full := fault.New(fault.LimitExceeded, "no room")
	ctx := steps.WithUndo(context.Background(), func(*steps.Undo) error { return full })
	want := snapshot(t, root)
	for _, c := range [][2]string{{"fs.write", `{"path":"file","text":"two"}`}, {"fs.write", `{"path":"new","text":"two"}`},
		{"fs.edit", `{"path":"file","old":"one","new":"two"}`}, {"fs.move", `{"from":"file","to":"there"}`}, {"fs.remove", `{"path":"file"}`},
		{"fs.remove", `{"path":"folder"}`}, {"fs.mkdir", `{"path":"a/b"}`}} {
		if _, err := function(s, c[0]).Call(ctx, []byte(c[1])); fault.CodeOf(err) != fault.LimitExceeded {
			t.Errorf("%s %s: got %v, want limit_exceeded", c[0], c[1], err)
		}
		if got := snapshot(t, root); !maps.Equal(got, want) {
			t.Errorf("%s %s leaves %q, want %q", c[0], c[1], got, want)
		}
	}
}

// TestEditsSideBySide: edits of one file at the same time are all there.
func TestEditsSideBySide(t *testing.T) {
	t.Parallel()
	const edits = 40
	_, root := open(t, map[string]string{"file": ""})
	s := openAt(t, &files.Options{Root: root, Write: []string{"."}})
	must(t, os.WriteFile(filepath.Join(root, "file"), []byte("."), 0o644))
	var group sync.WaitGroup
	for i := range edits {
		group.Go(func() {
			if _, err := change(t, s, "fs.edit", fmt.Sprintf(`{"path":"file","old":".","new":".<%d>"}`, i)); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	text, err := os.ReadFile(filepath.Join(root, "file"))
	must(t, err)
	for i := range edits {
		if !strings.Contains(string(text), fmt.Sprintf("<%d>", i)) {
			t.Errorf("edit %d is lost: %s", i, text)
		}
	}
}

// TestChangesStayInside: while a folder turns into a link out of the root and back, no call changes anything outside.
func TestChangesStayInside(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	root, outside := filepath.Join(base, "root"), filepath.Join(base, "outside")
	writeTree(t, base, map[string]string{"root/d/file": "in", "outside/file": "out", "outside/sub/": ""})
	must(t, os.Symlink(outside, filepath.Join(root, "link")))
	s := openAt(t, &files.Options{Root: root, Write: []string{"."}})
	want := snapshot(t, outside)
	stop, swapped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(swapped)
		d, link, away := filepath.Join(root, "d"), filepath.Join(root, "link"), filepath.Join(root, "away")
		for {
			select {
			case <-stop:
				return
			default:
			}
			// d is a folder, then the link, then the folder again.
			_ = os.Rename(d, away)
			_ = os.Rename(link, d)
			_ = os.Rename(d, link)
			_ = os.Rename(away, d)
		}
	}()
	for i := range 50 {
		for fn, args := range map[string]string{"fs.write": `{"path":"d/file","text":"in"}`, "fs.edit": `{"path":"d/file","old":"in","new":"in"}`,
			"fs.move": `{"from":"d/file","to":"d/other"}`, "fs.remove": `{"path":"d/other"}`, "fs.mkdir": fmt.Sprintf(`{"path":"d/sub/%d"}`, i)} {
			_, _ = change(t, s, fn, args)
		}
	}
	close(stop)
	<-swapped
	if got := snapshot(t, outside); !maps.Equal(got, want) {
		t.Errorf("outside the root is %q, want %q", got, want)
	}
}

// TestChangeFunctions: without a folder to write to there are none, and a folder that is not there is a fault of the configuration.
func TestChangeFunctions(t *testing.T) {
	t.Parallel()
	_, root := open(t, map[string]string{"file": ""})
	must(t, os.Mkdir(filepath.Join(root, "folder"), 0o755))
	must(t, os.Symlink("folder", filepath.Join(root, "link")))
	for _, folder := range []string{"nothing", "file", "..", "", "link"} {
		s, err := files.New(&files.Options{Root: root, Write: []string{".", folder}})
		if f, _ := fault.As(err); fault.CodeOf(err) != fault.BadRequest || f.At != "/write/1" {
			t.Errorf("Write %q: got %v, %v, want bad_request at /write/1", folder, s, err)
		}
	}
	s := openAt(t, &files.Options{Root: root, Write: []string{"."}})
	effects := map[string]steps.Effect{}
	for _, f := range s.Functions() {
		effects[f.Name] = f.Effect
		if f.Effect != steps.Read && (f.Repeatable() || !json.Valid(f.Input)) {
			t.Errorf("%s may be repeated", f.Name)
		}
	}
	if len(effects) != 11 || effects["fs.write"] != steps.Write || effects["fs.remove"] != steps.Destroy || effects["fs.cat"] != steps.Read {
		t.Errorf("got the effects %v", effects)
	}
	must(t, s.Close())
	for fn, args := range map[string]string{"fs.write": `{"path":"x","text":""}`, "fs.edit": `{"path":"file","old":"a","new":"b"}`,
		"fs.move": `{"from":"file","to":"x"}`, "fs.remove": `{"path":"file"}`, "fs.mkdir": `{"path":"x"}`} {
		if _, err := change(t, s, fn, args); fault.CodeOf(err) != fault.Unavailable || fault.OutcomeOf(err) == fault.Applied {
			t.Errorf("%s after Close: got %v, want unavailable", fn, err)
		}
	}
}
