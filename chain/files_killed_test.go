package chain_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps/source/files"
)

// changesOfFiles are the steps of a chain, each with what it changes: a path, and what that holds before and after.
var changesOfFiles = []struct{ step, path, before, after string }{
	{`{"fn":"fs.edit","args":{"path":"edited","old":"old","new":"new"}}`, "edited", "old", "new"},
	{`{"fn":"fs.write","args":{"path":"made","text":"new"}}`, "made", absent, "new"},
	{`{"fn":"fs.write","args":{"path":"replaced","text":"new"}}`, "replaced", "old", "new"},
	{`{"fn":"fs.mkdir","args":{"path":"folder/in/it"}}`, "folder/in/it", absent, "/"},
	{`{"fn":"fs.move","args":{"from":"moved","to":"there"}}`, "moved", "old", absent},
	{`{"fn":"fs.remove","args":{"path":"removed"}}`, "removed", "old", absent},
}

const absent = "nothing"

// holds returns what a path holds: absent, "/" for a folder, else the text.
func holds(t *testing.T, root, path string) string {
	t.Helper()
	info, err := os.Stat(filepath.Join(root, path))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return absent
	case err == nil && info.IsDir():
		return "/"
	}
	text, err := os.ReadFile(filepath.Join(root, path))
	must(t, err)
	return string(text)
}

// TestChangesKilledAtEachEvent: a chain that changes files is killed at each of its writes to the journal, confirmed or not, and another process
// undoes it. Each file then holds what it held, unless the undo says that it is not known whether its call was made; no file holds anything else.
func TestChangesKilledAtEachEvent(t *testing.T) {
	t.Parallel()
	kills := 0
	for left, killed := 1, true; killed; left++ {
		for _, lastKept := range []bool{false, true} {
			if killed = undoAfterKill(t, left, lastKept); killed {
				kills++
			}
		}
	}
	if kills < 4*len(changesOfFiles) { // each change begins and ends
		t.Errorf("%d kills, want one at each event", kills)
	}
}

// undoAfterKill returns whether the chain was killed.
func undoAfterKill(t *testing.T, left int, lastKept bool) bool {
	t.Helper()
	root, steps := t.TempDir(), ""
	for _, c := range changesOfFiles {
		if c.before != absent {
			must(t, os.WriteFile(filepath.Join(root, c.path), []byte(c.before), 0o644))
		}
		steps += "," + c.step
	}
	source, err := files.New(&files.Options{Root: root, Write: []string{"."}})
	must(t, err)
	defer source.Close()
	memory := &journal.Memory{}
	process := func(ctx context.Context, d journal.Driver, request string) *chain.Answer {
		j, err := journal.New(d, &journal.Options{Key: modelKey})
		must(t, err)
		defer j.Close()
		return engineOf(t, source.Functions(), chain.Options{Journal: j}, false).Run(ctx, []byte(request), nil)
	}
	ctx, kill := context.WithCancel(t.Context())
	defer kill()
	driver := &killableDriver{Driver: memory, left: left, lastKept: lastKept, kill: kill}
	process(ctx, driver, `{"key":"changes","steps":[`+steps[1:]+`]}`)
	run, _, _ := memory.Find(t.Context(), "", "changes")
	unknown := map[int64]bool{}
	if run != "" {
		undone := process(t.Context(), memory, `{"resume":"`+run+`","undo":true}`)
		for _, call := range gjson.GetBytes(undone.JSON, "result.left").Array() {
			unknown[call.Get("at").Int()] = true
			if fault.Code(call.Get("code").Str) != fault.ResumeConflict {
				t.Errorf("killed at write %d: %s is left as %s", left, call.Get("at"), call.Raw)
			}
		}
	}
	for i, c := range changesOfFiles {
		if got := holds(t, root, c.path); got != c.before && !(unknown[int64(i)] && got == c.after) {
			t.Errorf("killed at write %d (kept %t): %s holds %q, want %q; not known are %v", left, lastKept, c.path, got, c.before, unknown)
		}
	}
	if len(unknown) > 1 {
		t.Errorf("killed at write %d: the calls %v are not known, want at most one", left, unknown)
	}
	return driver.left == 0
}
