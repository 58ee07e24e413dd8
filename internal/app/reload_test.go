package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/onecall-mcp/onecall/internal/config"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/cache"
)

// countingCloser counts how often it is closed.
type countingCloser struct{ closed int }

func (c *countingCloser) Close() error {
	c.closed++
	return nil
}

// pooledUse is one use of a pooled value.
type pooledUse struct {
	key     string
	value   *countingCloser
	release func() error
}

// TestPool compares a pool with a model: a key has one value as long as it is used, and its last user closes it once.
func TestPool(t *testing.T) {
	t.Parallel()
	errOpen := errors.New("it cannot be opened")
	rapid.Check(t, func(t *rapid.T) {
		p := &pool{}
		var uses []*pooledUse
		current := map[string]*countingCloser{}
		users := map[*countingCloser]int{}
		keys := rapid.SampledFrom([]string{"a", "b", "c"})
		t.Repeat(map[string]func(*rapid.T){
			"acquire": func(t *rapid.T) {
				key, opened := keys.Draw(t, "key"), false
				value, release, err := acquire(p, key, func() (*countingCloser, error) { opened = true; return &countingCloser{}, nil })
				if err != nil {
					t.Fatal(err)
				}
				if before := current[key]; opened != (before == nil) || before != nil && before != value {
					t.Fatalf("acquire(%s) returns %p (opened: %t), want the current %p", key, value, opened, before)
				}
				current[key] = value
				users[value]++
				uses = append(uses, &pooledUse{key, value, release})
			},
			"fail": func(t *rapid.T) {
				key := keys.Draw(t, "key")
				if current[key] != nil {
					t.Skip("the key has a value")
				}
				if _, _, err := acquire(p, key, func() (*countingCloser, error) { return nil, errOpen }); !errors.Is(err, errOpen) {
					t.Fatalf("acquire: got error %v, want %v", err, errOpen)
				}
			},
			"forget": func(t *rapid.T) {
				key := keys.Draw(t, "key")
				p.forget(key)
				delete(current, key)
			},
			"release": func(t *rapid.T) {
				if len(uses) == 0 {
					t.Skip("no value is in use")
				}
				i := rapid.IntRange(0, len(uses)-1).Draw(t, "use")
				one := uses[i]
				for range rapid.IntRange(1, 2).Draw(t, "times") {
					if err := one.release(); err != nil {
						t.Fatal(err)
					}
				}
				uses = slices.Delete(uses, i, i+1)
				if users[one.value]--; users[one.value] == 0 && current[one.key] == one.value {
					delete(current, one.key)
				}
			},
			"": func(t *rapid.T) {
				for value, n := range users {
					if want := map[bool]int{true: 0, false: 1}[n > 0]; value.closed != want {
						t.Fatalf("with %d users: closed %d times, want %d", n, value.closed, want)
					}
				}
			},
		})
	})
}

// TestFingerprint: each setting changes the fingerprint, which shows none.
func TestFingerprint(t *testing.T) {
	t.Parallel()
	text := func(s string) *string { return &s }
	seen := map[string]int{}
	for i, c := range []config.MCPServer{
		{}, {Command: text("a")}, {URL: text("a")}, {Args: []string{"a", "b"}}, {Args: []string{`a" "b`}}, {Args: []string{}},
		{Env: map[string]string{"A": "secret-word"}}, {Env: map[string]string{"A": "other-word"}},
		{Headers: map[string]string{"A": "secret-word"}},
		{Command: text("a"), OAuth: &config.OAuth{}}, {OAuth: &config.OAuth{ClientID: text("a")}},
	} {
		key := fingerprint(&c)
		if other, ok := seen[key]; ok {
			t.Errorf("settings %d and %d have the same fingerprint", i, other)
		}
		if again := c; key != fingerprint(&again) || strings.Contains(key, "word") {
			t.Errorf("the fingerprint of settings %d is not stable or shows a secret: %q", i, key)
		}
		seen[key] = i
	}
	if fingerprint("b", "c") == fingerprint("bc", "") || fingerprint("b", nil) == fingerprint(nil, "b") {
		t.Error("different lists of settings have the same fingerprint")
	}
}

// TestFileState: writing a file changes its stat, however it is written, and its content changes with it.
func TestFileState(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	path := write(t, folder, "f", "one")
	old := time.Now().Add(-time.Hour)
	age := func(path string) {
		if err := os.Chtimes(path, old, old); err != nil {
			t.Fatal(err)
		}
	}
	age(path)
	var first fileState
	first.add("", path)
	if now := first.restat(); !now.sameStat(first) || !now.sameContent(first) {
		t.Error("an untouched file counts as changed")
	}
	for name, change := range map[string]func(){
		"written": func() { write(t, folder, "f", "two") },
		"replaced by a file of the same age and size": func() {
			other := write(t, folder, "other", "six")
			age(other)
			_ = os.Rename(other, path)
		},
		"behind a changed link": func() {
			_ = os.Mkdir(filepath.Join(folder, "v1"), 0o700)
			write(t, folder, "v1/f", "ten")
			age(filepath.Join(folder, "v1", "f"))
			_ = os.Remove(path)
			if err := os.Symlink(filepath.Join("v1", "f"), path); err != nil {
				t.Skip("needs symbolic links: ", err)
			}
		},
		"gone": func() { _ = os.Remove(path) },
	} {
		before := first.reread()
		change()
		if before.restat().sameStat(before) || before.reread().sameContent(before) {
			t.Errorf("%s: the change is not noticed", name)
		}
		write(t, folder, "g", "one")
		_ = os.Rename(filepath.Join(folder, "g"), path)
		age(path)
		if !first.reread().sameContent(first) {
			t.Errorf("%s, then restored: the content counts as changed", name)
		}
	}
	var notFiles fileState
	notFiles.add("", folder, filepath.Join(folder, "none"), "")
	if len(notFiles) != 2 || notFiles[0].digest+notFiles[1].digest != "" || !notFiles.restat().sameStat(notFiles) {
		t.Errorf("the state of a folder and a missing file: got %v, want 2 entries without digests", notFiles)
	}
}

// TestWriteFlushesAllCaches: a write through one configuration's functions flushes the source from the other's cache.
func TestWriteFlushesAllCaches(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	value := "1"
	registry, err := steps.NewRegistry([]steps.Function{
		{Spec: steps.Spec{Name: "a.read", Effect: steps.Read, CacheTTL: time.Hour}, Call: func(context.Context, []byte) ([]byte, error) {
			mu.Lock()
			defer mu.Unlock()
			return []byte(value), nil
		}},
		{Spec: steps.Spec{Name: "a.write", Effect: steps.Write}, Call: func(context.Context, []byte) ([]byte, error) {
			mu.Lock()
			defer mu.Unlock()
			value += "1"
			return []byte("null"), nil
		}},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	all := &caches{}
	var views []*steps.Registry
	for range 2 {
		cache := cache.New(nil)
		all.add(cache)
		views = append(views, all.wrap(cache, registry))
	}
	call := func(view int, name string) string {
		result, err := views[view].All()[map[string]int{"a.read": 0, "a.write": 1}[name]].Call(t.Context(), []byte("{}"))
		if err != nil {
			t.Fatal(err)
		}
		return string(result)
	}
	for _, writer := range []int{0, 1, 0} {
		before := call(0, "a.read")
		if again := call(1, "a.read"); again != before {
			t.Errorf("before a write: %s and %s, want the same", before, again)
		}
		call(writer, "a.write")
		if one, other := call(0, "a.read"), call(1, "a.read"); one != before+"1" || other != one {
			t.Errorf("after a write through %d: %s and %s, want %s1", writer, one, other, before)
		}
	}
	mu.Lock()
	value = "other"
	mu.Unlock()
	if got := call(0, "a.read"); got != "1111" {
		t.Errorf("without a write: got %s, want the cached 1111", got)
	}
}

// TestRedactorKeepsSecrets: the secrets of all configurations that were read are removed.
func TestRedactorKeepsSecrets(t *testing.T) {
	t.Parallel()
	r := &Redactor{}
	if got := r.Text("first-secret"); got != "first-secret" {
		t.Errorf("without secrets: got %q, want first-secret", got)
	}
	r.learn([]string{"first-secret"})
	r.learn([]string{"second-secret", "first-secret"})
	r.learn(nil)
	if got := r.Text("first-secret second-secret"); strings.Contains(got, "secret") {
		t.Errorf("a secret remains: %q", got)
	}
}

// TestWarnings: a warning is given again if the previous app did not give it.
func TestWarnings(t *testing.T) {
	t.Parallel()
	p := processOf(Options{}, serverTraits{})
	for _, c := range []struct {
		generation int
		first      bool
	}{{0, true}, {0, false}, {1, false}, {2, false}, {4, true}, {5, false}} {
		if got := p.shouldWarn(c.generation, "odd"); got != c.first {
			t.Errorf("app %d: shouldWarn is %t, want %t", c.generation, got, c.first)
		}
	}
	for generation := range 100 { // warnings that change with each configuration are not kept
		p.shouldWarn(10+generation, fmt.Sprint("odd ", generation))
	}
	if n := len(p.warned); n > 2 {
		t.Errorf("%d warnings are stored, want at most 2", n)
	}
}
