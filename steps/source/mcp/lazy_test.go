package mcp

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/steps"
)

func TestLazy(t *testing.T) {
	t.Parallel()
	o := child(t, "good")
	o.Lazy, o.CacheFile = true, filepath.Join(t.TempDir(), "sub", "tools.json")
	o.Env["SHELF_TOKEN"] = "verysecret"
	s := openSource(t, o)
	await(t, s, steps.StateReady) // no cache: it is started to list
	first := s.Functions()
	if len(first) == 0 {
		t.Fatal("it has no functions")
	}
	if got := mustCall(t, s, "shelf.put", `{"name":"x"}`); got != `"put"` {
		t.Errorf("the first call answers %s", got)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	kept, err := os.ReadFile(o.CacheFile)
	if err != nil || strings.Contains(string(kept), "verysecret") {
		t.Fatalf("the cache holds a secret, or nothing: %v", err)
	}

	again := openSource(t, o)
	if status := again.Status(); status.State != steps.StateIdle || status.Version != "shelf 1.2" {
		t.Errorf("with a cache it begins as %+v", status)
	}
	if second := again.Functions(); len(second) != len(first) {
		t.Errorf("%d functions of the cache, %d before", len(second), len(first))
	}
	if got := mustCall(t, again, "shelf.put", `{"name":"x"}`); got != `"put"` {
		t.Errorf("the call that starts it answers %s", got)
	}
	await(t, again, steps.StateReady)

	o.Args = []string{"another"}
	if third := openSource(t, o); third.Status().State == steps.StateIdle {
		t.Error("a list of other options was used")
	}
	if err := os.WriteFile(o.CacheFile, kept[:len(kept)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	o.Args = nil
	damaged := openSource(t, o)
	await(t, damaged, steps.StateReady)
	if len(damaged.Functions()) != len(first) {
		t.Error("a damaged cache was not replaced")
	}
}

func TestCacheIsValidJSON(t *testing.T) {
	t.Parallel()
	s := newSource(Options{Name: "s", Command: "x", Lazy: true, CacheFile: filepath.Join(t.TempDir(), "c")})
	s.writeCache([]tool{{name: "a", function: "s.a", raw: `{"name":"a","description":"<b>","inputSchema":{"type":"object"}}`}}, "v", nil)
	text, err := os.ReadFile(s.options.CacheFile)
	if err != nil || !json.Valid(text) {
		t.Fatal(err)
	}
	tools, version, _, ok := s.readCache()
	if !ok || version != "v" || len(tools) != 1 || tools[0].function != "s.a" {
		t.Errorf("%+v %q %v", tools, version, ok)
	}
}
