package mcp

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

func TestLazy(t *testing.T) {
	t.Parallel()
	o := child(t, "good")
	o.Lazy, o.CacheFile, o.IdleStop = true, filepath.Join(t.TempDir(), "sub", "tools.json"), 50*time.Millisecond
	o.Env["SHELF_TOKEN"] = "verysecret"
	s := open(t, o)
	await(t, s, steps.StateIdle) // no cache: it was started to list, and then stopped
	first := s.Functions()
	if len(first) == 0 {
		t.Fatal("an idle source has no functions")
	}
	if got := do(t, s, "shelf.put", `{"name":"x"}`); got != `"put"` {
		t.Errorf("the first call answers %s", got)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	kept, err := os.ReadFile(o.CacheFile)
	if err != nil || strings.Contains(string(kept), "verysecret") {
		t.Fatalf("the cache holds a secret, or nothing: %v", err)
	}

	again := open(t, o)
	if status := again.Status(); status.State != steps.StateIdle || status.Version != "shelf 1.2" {
		t.Errorf("with a cache it begins as %+v", status)
	}
	if second := again.Functions(); len(second) != len(first) {
		t.Errorf("%d functions of the cache, %d before", len(second), len(first))
	}
	pid := do(t, again, "shelf.pid", `{}`)
	await(t, again, steps.StateIdle)
	if other := do(t, again, "shelf.pid", `{}`); other == pid {
		t.Error("the idle server was not stopped")
	}

	o.Args = []string{"another"}
	if third := open(t, o); third.Status().State == steps.StateIdle {
		t.Error("a list of other options was used")
	}
	if err := os.WriteFile(o.CacheFile, kept[:len(kept)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	o.Args = nil
	damaged := open(t, o)
	await(t, damaged, steps.StateReady, steps.StateIdle)
	if len(damaged.Functions()) != len(first) {
		t.Error("a damaged cache was not replaced")
	}
}

func TestIdleStopWaitsForCalls(t *testing.T) {
	t.Parallel()
	o := child(t, "good")
	o.IdleStop = 30 * time.Millisecond
	s := open(t, o)
	await(t, s, steps.StateReady)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	fails(ctx, t, s, "shelf.wait", `{}`, fault.Timeout) // not: the connection was lost
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
