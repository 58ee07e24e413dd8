package shape

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

func returnNull(context.Context, []byte) ([]byte, error) { return []byte("null"), nil }

// answering returns a function that always returns one result.
func answering(name, result string) steps.Function {
	return steps.Function{Spec: steps.Spec{Name: name}, Prompt: true,
		Call: func(context.Context, []byte) ([]byte, error) { return []byte(result), nil }}
}

// learningRegistry returns a registry of functions from whose results a store learns, with identities of one source.
func learningRegistry(t testing.TB, s *Store, source string, functions ...steps.Function) *steps.Registry {
	t.Helper()
	r, err := steps.NewRegistry(functions, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s.Learn(r, func(spec *steps.Spec) string { return source + " " + spec.Name })
}

func call(t testing.TB, r *steps.Registry, name, caller string, times int) *steps.Entry {
	t.Helper()
	entry, err := r.Resolve(name)
	if err != nil {
		t.Fatal(err)
	}
	ctx := steps.WithCallbacks(t.Context(), &steps.Callbacks{Caller: caller})
	for range times {
		if _, err := entry.Call(ctx, []byte("{}")); err != nil {
			t.Fatal(err)
		}
	}
	return entry
}

const page = `{"items":[{"id":1,"title":"secret"}],"next":"secret"}`

// TestPartialResult: a result that lacks what was not asked for teaches nothing.
func TestPartialResult(t *testing.T) {
	t.Parallel()
	s := Open(nil)
	defer s.Close()
	r := learningRegistry(t, s, "here", answering("s.list", `{"next":1}`), answering("s.page", page))
	entry, err := r.Resolve("s.list")
	if err != nil {
		t.Fatal(err)
	}
	for range enoughCalls {
		if _, err := entry.Call(steps.WithPartialResult(t.Context()), []byte("{}")); err != nil {
			t.Fatal(err)
		}
	}
	if shape := entry.ResultShape(); shape != nil {
		t.Errorf("the shape %s was learned, want none", shape.Schema)
	}
	known := call(t, r, "s.page", "", enoughCalls)
	if got := known.ResultMembers(); len(got) != 2 || got[0] != "items" || got[1] != "next" {
		t.Errorf("the members %v were seen, want items and next", got)
	}
}

const pageSignature = `s.list(…) seen: {items: {id: integer, title: string}[], next: string}`

// TestStore: a learned shape still exists after a restart, only for the same function of the same source.
func TestStore(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state", "shapes.json")
	open := func() *Store { return Open(&Options{Path: path, Warn: func(f *fault.Error) { t.Error(f) }}) }
	for n := range 5 { // each call simulates another process
		s := open()
		entry := call(t, learningRegistry(t, s, "here", answering("s.list", page)), "s.list", "", 1)
		if learned := entry.Signature() == pageSignature; learned != (n == 4) {
			t.Errorf("after %d calls: got signature %s, want the result only after 5", n+1, entry.Signature())
		}
		s.Close()
		text, err := os.ReadFile(path)
		if n == 4 && strings.Contains(string(text), "pending") {
			t.Errorf("the file still counts calls of a stored name: %s", text)
		}
		if err != nil || strings.Contains(string(text), "secret") || n < 4 && strings.Contains(string(text), "title") {
			t.Fatalf("the file contains too much, or cannot be read: %v: %s", err, text)
		}
	}
	if info, err := os.Stat(path); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("the file has mode %v, want 0600: %v", info.Mode(), err)
	}
	s := open()
	defer s.Close()
	if got := learningRegistry(t, s, "here", answering("s.list", page)).All()[0].Signature(); got != pageSignature {
		t.Errorf("after a restart: got signature %s, want %s", got, pageSignature)
	}
	for name, r := range map[string]*steps.Registry{
		"another source":   learningRegistry(t, s, "there", answering("s.list", page)),
		"another function": learningRegistry(t, s, "here", answering("s.lists", page)),
		"a declared result": learningRegistry(t, s, "here", steps.Function{
			Spec: steps.Spec{Name: "s.list", Output: []byte(`{"type":"object"}`)}, Call: returnNull}),
	} {
		if got := r.All()[0].Signature(); strings.Contains(got, "seen") {
			t.Errorf("%s shows a learned shape: %s", name, got)
		}
	}
}

// TestViews: a view without a function does not show its shape; a view with the function sees the shape that others have learned.
func TestViews(t *testing.T) {
	t.Parallel()
	r := learningRegistry(t, Open(nil), "here", answering("s.list", page), answering("s.get", `"x"`))
	call(t, r, "s.list", "", 5)
	view := r.View(func(spec *steps.Spec) bool { return spec.Name == "s.get" })
	if _, err := view.Resolve("s.list"); err == nil || view.Len() != 1 {
		t.Error("the view shows a hidden function")
	}
	wrapped := r.Wrap(func(_ *steps.Spec, call steps.Call) steps.Call { return call })
	if got := wrapped.All()[1].Signature(); got != pageSignature {
		t.Errorf("got %s, want %s", got, pageSignature)
	}
}

// TestFailures: nothing is learned from a failed call.
func TestFailures(t *testing.T) {
	t.Parallel()
	failing := answering("s.list", "")
	failing.Call = func(context.Context, []byte) ([]byte, error) { return nil, fault.New(fault.FunctionFailed, "no") }
	entry := learningRegistry(t, Open(nil), "here", failing).All()[0]
	for range 9 {
		if _, err := entry.Call(t.Context(), []byte("{}")); err == nil {
			t.Fatal("the failing function returned no error")
		}
	}
	if entry.ResultShape() != nil {
		t.Errorf("got %s, want no result shape", entry.Signature())
	}
}

// TestSeveralProcesses: stores that share a file keep each other's shapes, and add their counts.
func TestSeveralProcesses(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "shapes.json")
	var wg sync.WaitGroup
	for n := range 8 {
		wg.Go(func() {
			s := Open(&Options{Path: path, Warn: func(f *fault.Error) { t.Error(f) }})
			r := learningRegistry(t, s, "here", answering("s."+word(n), page), answering("s.common", `{"common_`+word(n)+`":1}`))
			call(t, r, "s."+word(n), "", 5)
			call(t, r, "s.common", "", 5)
			s.Close()
		})
	}
	wg.Wait()
	s := Open(&Options{Path: path})
	for n := range 8 {
		entry := learningRegistry(t, s, "here", answering("s."+word(n), page)).All()[0]
		if !strings.Contains(entry.Signature(), "title") {
			t.Errorf("got %s, want title", entry.Signature())
		}
	}
	common := learningRegistry(t, s, "here", answering("s.common", page)).All()[0]
	if got := strings.Count(common.Signature(), "common_"); got != 8 {
		t.Errorf("the shared shape has %d names, want 8: %s", got, common.Signature())
	}
	if files, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".*")); len(files) > 0 {
		t.Errorf("temporary files were left: %v", files)
	}
}

// TestUnwritable: if the file cannot be written, there is one warning, and shapes are learned in memory.
func TestUnwritable(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(folder, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var warnings []*fault.Error
	s := Open(&Options{Path: filepath.Join(folder, "shapes.json"), Warn: func(f *fault.Error) { warnings = append(warnings, f) }})
	entry := call(t, learningRegistry(t, s, "here", answering("s.list", page)), "s.list", "", 5)
	s.Close()
	if len(warnings) != 1 || entry.Signature() != pageSignature {
		t.Errorf("got warnings %v, signature %s, want one and %s", warnings, entry.Signature(), pageSignature)
	}
}
