package chain_test

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps/source/files"
)

// tree is what a folder holds: the text of each file, "/" for a folder.
type tree map[string]string

// treeOf returns what is below a folder.
func treeOf(t *testing.T, root string) tree {
	t.Helper()
	now := tree{}
	must(t, filepath.WalkDir(root, func(at string, e fs.DirEntry, err error) error {
		if err != nil || at == root {
			return err
		}
		rel, err := filepath.Rel(root, at)
		must(t, err)
		if now[filepath.ToSlash(rel)] = "/"; e.IsDir() {
			return nil
		}
		text, err := os.ReadFile(at)
		now[filepath.ToSlash(rel)] = string(text)
		return err
	}))
	return now
}

// drawChange draws a change that succeeds on a tree, as a step, and makes it in the tree. Of a move it returns the paths, too.
func (w tree) drawChange(random *rand.Rand, n int) (step, from, to string) {
	pick := func(kept func(path, text string) bool) string {
		var paths []string
		for path, text := range w {
			if kept(path, text) {
				paths = append(paths, path)
			}
		}
		if len(paths) == 0 {
			return ""
		}
		slices.Sort(paths)
		return paths[random.IntN(len(paths))]
	}
	isFile := func(_, text string) bool { return text != "/" }
	folder := ""
	if in := pick(func(_, text string) bool { return text == "/" }); in != "" && random.IntN(2) == 0 {
		folder = in + "/"
	}
	free, text := fmt.Sprintf("%sn%d", folder, n), fmt.Sprintf("text %d", n)
	switch file := pick(isFile); {
	case random.IntN(5) == 0:
		w[free+"/in"], w[free] = "/", "/"
		return fmt.Sprintf(`{"fs.mkdir":{"path":%q}}`, free+"/in"), "", ""
	case file == "" || random.IntN(4) == 0:
		w[free] = text
		return fmt.Sprintf(`{"fs.write":{"path":%q,"text":%q}}`, free, text), "", ""
	case random.IntN(4) == 0:
		w[file] = text
		return fmt.Sprintf(`{"fs.write":{"path":%q,"text":%q}}`, file, text), "", ""
	case random.IntN(3) == 0:
		old := w[file]
		w[file] = old + "+"
		return fmt.Sprintf(`{"fs.edit":{"path":%q,"old":%q,"new":%q}}`, file, old, old+"+"), "", ""
	case random.IntN(2) == 0:
		gone := pick(func(path, _ string) bool { return w.isEmpty(path) })
		delete(w, gone)
		return fmt.Sprintf(`{"fs.remove":{"path":%q}}`, gone), "", ""
	}
	from = pick(func(path, _ string) bool { return !strings.HasPrefix(free, path+"/") })
	w.move(from, free)
	return fmt.Sprintf(`{"fs.move":{"from":%q,"to":%q}}`, from, free), from, free
}

// move moves a path with all that is below it.
func (w tree) move(from, to string) {
	for path, text := range maps.Clone(w) {
		if path == from || strings.HasPrefix(path, from+"/") {
			delete(w, path)
			w[to+path[len(from):]] = text
		}
	}
}

// takeBack makes the paths that differ between before and after what they were before. A folder that holds something stays.
func (w tree) takeBack(before, after tree) {
	for path, text := range before {
		if after[path] != text {
			w[path] = text
		}
	}
	for _, path := range slices.Backward(slices.Sorted(maps.Keys(after))) { // what a folder holds comes before it
		if _, there := before[path]; !there && w.isEmpty(path) {
			delete(w, path)
		}
	}
}

// isEmpty reports whether nothing is below a path.
func (w tree) isEmpty(path string) bool {
	for other := range w {
		if strings.HasPrefix(other, path+"/") {
			return false
		}
	}
	return true
}

// TestRandomChangesKilled: a chain of random changes of files is killed at one of its writes to the journal, confirmed or not, and another
// process undoes it. What the undo does not say that it left is taken back, and no file holds anything else. With ONECALL_TEST_LONG=1 it is
// 10,000 chains.
func TestRandomChangesKilled(t *testing.T) {
	t.Parallel()
	chains := 200
	if os.Getenv("ONECALL_TEST_LONG") != "" {
		chains = 10_000
	}
	kills, base := 0, t.TempDir()
	for seed := range chains {
		root := filepath.Join(base, fmt.Sprint(seed))
		must(t, os.Mkdir(root, 0o755))
		if killRandomChanges(t, root, uint64(seed)) {
			kills++
		}
		must(t, os.RemoveAll(root))
	}
	if kills < chains/2 {
		t.Errorf("%d of %d chains were killed, want most of them", kills, chains)
	}
}

// killRandomChanges returns whether the chain was killed.
func killRandomChanges(t *testing.T, root string, seed uint64) bool {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 0))
	must(t, os.Mkdir(filepath.Join(root, "d"), 0o755))
	must(t, os.WriteFile(filepath.Join(root, "d", "a"), []byte("old"), 0o644))
	trees := []tree{treeOf(t, root)} // before each change, and after the last
	var list []string
	moves := map[int][2]string{}
	for n := range 1 + random.IntN(6) {
		after := maps.Clone(trees[n])
		step, from, to := after.drawChange(random, n)
		if list, trees = append(list, step), append(trees, after); from != "" {
			moves[n] = [2]string{from, to}
		}
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
	driver := &killableDriver{Driver: memory, left: 1 + random.IntN(2*len(list)+2), lastKept: random.IntN(2) == 0, kill: kill}
	request := `{"key":"changes","steps":[` + strings.Join(list, ",") + `]}`
	answer := process(ctx, driver, request)
	atKill := treeOf(t, root)
	made := slices.IndexFunc(trees, func(w tree) bool { return maps.Equal(w, atKill) })
	if made < 0 {
		t.Fatalf("seed %d: %s\nleaves %q, which is no state of the model; it answers %s", seed, request, atKill, answer.JSON)
	}
	run, _, _ := memory.Find(t.Context(), "", "changes")
	if run == "" {
		if made > 0 {
			t.Errorf("seed %d: %s\nhas changed %q, and no run is recorded", seed, request, atKill)
		}
		return driver.left == 0
	}
	undone := process(t.Context(), memory, `{"resume":"`+run+`","undo":true}`)
	left := map[int]fault.Code{}
	for _, call := range gjson.GetBytes(undone.JSON, "result.left").Array() {
		left[int(call.Get("at").Int())] = fault.Code(call.Get("code").Str)
	}
	want := maps.Clone(atKill)
	for n := made - 1; n >= 0; n-- {
		switch move, moved := moves[n]; {
		case left[n] != "":
		case moved:
			want.move(move[1], move[0]) // with what has changed in it since
		default:
			want.takeBack(trees[n], trees[n+1])
		}
	}
	if got := treeOf(t, root); !maps.Equal(got, want) {
		t.Errorf("seed %d: %s\nkilled at %q, undone by %s\nleaves %q\nwant   %q", seed, request, atKill, undone.JSON, got, want)
	}
	unknown := 0
	for _, code := range left {
		if code == fault.ResumeConflict {
			unknown++
		}
	}
	if unknown > 1 || unknown == 0 && len(left) > 0 {
		t.Errorf("seed %d: %s\nleaves %v; want at most one call that is not known, and others only because of it", seed, request, left)
	}
	return driver.left == 0
}
