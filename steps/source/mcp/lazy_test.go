package mcp_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/steps"
	mcpsource "github.com/onecall-mcp/onecall/steps/source/mcp"
)

func TestLazy(t *testing.T) {
	t.Parallel()
	o := childOptions(t, "good")
	o.Lazy, o.CacheFile = true, filepath.Join(t.TempDir(), "sub", "tools.json")
	o.Env["SHELF_TOKEN"] = "verysecret"
	s := openSource(t, o)
	await(t, s, steps.StateReady) // without a cache, it is started to list its tools
	first := s.Functions()
	if len(first) == 0 {
		t.Fatal("the source has no functions after its first start")
	}
	if got := mustCall(t, s, "shelf.put", `{"name":"x"}`); got != `"put"` {
		t.Errorf("the first call: got %s, want put", got)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	stored, err := os.ReadFile(o.CacheFile)
	if err != nil || !json.Valid(stored) || strings.Contains(string(stored), "verysecret") {
		t.Fatalf("the cache contains a secret, or is not JSON: %s, %v", stored, err)
	}

	again := openSource(t, o)
	if status := again.Status(); status.State != steps.StateIdle || status.Version != "shelf 1.2" {
		t.Errorf("a source with a cache: got status %+v, want idle", status)
	}
	for i, fn := range again.Functions() {
		if fn.Name != first[i].Name || string(fn.Listing) != strings.NewReplacer("<", `\u003c`, ">", `\u003e`).Replace(string(first[i].Listing)) {
			t.Errorf("got listing %s from the cache, want %s", fn.Listing, first[i].Listing)
		}
	}
	if got := mustCall(t, again, "shelf.put", `{"name":"x"}`); got != `"put"` {
		t.Errorf("the call that starts the server: got %s, want put", got)
	}
	await(t, again, steps.StateReady)

	o.Args = []string{"another"}
	third := openSource(t, o)
	if third.Status().State == steps.StateIdle {
		t.Error("the cache of other options was used")
	}
	for _, s := range []*mcpsource.Source{again, third} { // they may still write the cache
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(o.CacheFile, stored[:len(stored)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	o.Args = nil
	damaged := openReady(t, o)
	if len(damaged.Functions()) != len(first) {
		t.Error("a damaged cache was not replaced")
	}
}

// A cached list belongs to the server of one path. The query may contain a secret, and is ignored.
func TestLazyDistinguishesServers(t *testing.T) {
	t.Parallel()
	url, file := listen(t, newSwitchedHandler(t, nil)), filepath.Join(t.TempDir(), "tools.json")
	for _, c := range []struct {
		path   string
		cached bool
	}{{"/a", false}, {"/a?key=x", true}, {"/b", false}} {
		s := openSource(t, &mcpsource.Options{Name: "shelf", URL: url + c.path, Lazy: true, CacheFile: file})
		if idle := s.Status().State == steps.StateIdle; idle != c.cached {
			t.Errorf("%s: got state %s, want cached %t", c.path, s.Status().State, c.cached)
		} else if !idle {
			await(t, s, steps.StateReady)
		}
		_ = s.Close()
	}
}
