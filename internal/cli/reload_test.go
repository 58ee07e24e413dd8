package cli

import (
	"context"
	"errors"
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

// counted is a thing that knows how often it was closed.
type counted struct{ closed int }

func (c *counted) Close() error {
	c.closed++
	return nil
}

// TestShelf compares a shelf with a model of it: what is lent under a key is one thing for as long as somebody has it, and is
// closed once, by the last.
func TestShelf(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := &shelf{}
		var lent []*loan[*counted]
		current := map[string]*counted{}
		users := map[*counted]int{}
		keys := rapid.SampledFrom([]string{"a", "b", "c"})
		t.Repeat(map[string]func(*rapid.T){
			"take": func(t *rapid.T) {
				key := keys.Draw(t, "key")
				l, err := take(s, key, func() (*counted, error) { return &counted{}, nil })
				if err != nil {
					t.Fatal(err)
				}
				if was := current[key]; l.was != (was != nil) || was != nil && was != l.value {
					t.Fatalf("%s: lent %p, was %v; before %p", key, l.value, l.was, was)
				}
				current[key] = l.value
				users[l.value]++
				lent = append(lent, l)
			},
			"fail": func(t *rapid.T) {
				key := keys.Draw(t, "key")
				if current[key] != nil {
					t.Skip("it is there")
				}
				if _, err := take(s, key, func() (*counted, error) { return nil, errNotOpen }); !errors.Is(err, errNotOpen) {
					t.Fatal(err)
				}
			},
			"drop": func(t *rapid.T) {
				key := keys.Draw(t, "key")
				s.drop(key)
				delete(current, key)
			},
			"give back": func(t *rapid.T) {
				if len(lent) == 0 {
					t.Skip("nothing is lent")
				}
				i := rapid.IntRange(0, len(lent)-1).Draw(t, "loan")
				l := lent[i]
				for range rapid.IntRange(1, 2).Draw(t, "times") {
					if err := l.Close(); err != nil {
						t.Fatal(err)
					}
				}
				lent = slices.Delete(lent, i, i+1)
				if users[l.value]--; users[l.value] == 0 && current[l.key] == l.value {
					delete(current, l.key)
				}
			},
			"": func(t *rapid.T) {
				for thing, n := range users {
					if want := map[bool]int{true: 0, false: 1}[n > 0]; thing.closed != want {
						t.Fatalf("with %d users it was closed %d times", n, thing.closed)
					}
				}
			},
		})
	})
}

// TestShelfKeys: things with one setting apart have keys apart, which show no setting.
func TestShelfKeys(t *testing.T) {
	t.Parallel()
	text := func(s string) *string { return &s }
	seen := map[string]int{}
	for i, c := range []config.MCPServer{
		{}, {Command: text("a")}, {URL: text("a")}, {Args: []string{"a", "b"}}, {Args: []string{`a" "b`}}, {Args: []string{}},
		{Env: map[string]string{"A": "secret-word"}}, {Env: map[string]string{"A": "other-word"}}, {Headers: map[string]string{"A": "secret-word"}},
		{Command: text("a"), OAuth: &config.OAuth{}}, {OAuth: &config.OAuth{ClientID: text("a")}},
	} {
		key := shelfKey("server", "a", &c)
		if other, twice := seen[key]; twice {
			t.Errorf("%d has the key of %d", i, other)
		}
		if key != shelfKey("server", "a", &c) || strings.Contains(key, "word") {
			t.Errorf("the key of %d is %q", i, key)
		}
		seen[key] = i
	}
	if shelfKey("a", "", "b", "c") == shelfKey("a", "", "bc", "") || shelfKey("a", "", "b", nil) == shelfKey("a", "", nil, "b") {
		t.Error("settings that follow each other are taken for one")
	}
}

// TestDifference: what is added, removed and changed has its place, and no value.
func TestDifference(t *testing.T) {
	t.Parallel()
	read := func(text string) *config.File {
		c, faults := config.Parse("onecall.yaml", []byte(text), func(string) (string, bool) { return "a-secret-word", true })
		if len(faults) > 0 {
			t.Fatal(faults)
		}
		return c
	}
	for _, c := range []struct {
		before, after           string
		added, removed, changed []string
	}{
		{"{}", "{}", nil, nil, nil},
		{"lite: true\nhoist: [a, b]", "hoist: [a, b]\nlite: true", nil, nil, nil},
		{"hoist: [a, b]", "hoist: [b, a]", nil, nil, []string{"/hoist"}},
		{"lite: true", "lite: false\nsurface: flat", []string{"/surface"}, nil, []string{"/lite"}},
		{"mcpServers: {a: {command: x, env: {K: '1'}}}", "mcpServers: {a: {command: x, env: {K: '2', L: '1'}}, b/c: {command: y}}",
			[]string{"/mcpServers/a/env/L", "/mcpServers/b~1c"}, nil, []string{"/mcpServers/a/env/K"}},
		{"functions: {x.y: {}}", "{}", nil, []string{"/functions/x.y"}, nil},
		{"functions: {x.y: {defaults: {n: 1.0}}}", "functions: {x.y: {defaults: {n: 1.00}}}", nil, nil, []string{"/functions/x.y/defaults"}},
		{"mcpServers: {a: {command: x, env: {K: '${V}'}}}", "mcpServers: {a: {command: x, env: {K: 'b'}}}", nil, nil, []string{"/mcpServers/a/env/K"}},
		{"results: {ttl: 5m}", "results: {ttl: 300s}", nil, nil, nil},
		{"access: {tokens: [{name: a, sha256: '1'}, {name: b, sha256: '2'}]}", "access: {tokens: [{name: b, sha256: '3', tier: admin}, {name: c, sha256: '4', functions: [fs.*]}]}",
			[]string{"/access/tokens/b/tier", "/access/tokens/c"}, []string{"/access/tokens/a"}, []string{"/access/tokens/b/sha256"}},
		{"access: {tokens: [{name: a, sha256: '1'}, {name: b, sha256: '2'}]}", "access: {tokens: [{name: b, sha256: '2'}, {name: a, sha256: '1'}]}", nil, nil, nil},
	} {
		got := differ(&read(c.before).Config, &read(c.after).Config, nil, nil)
		if !slices.Equal(got.added, c.added) || !slices.Equal(got.removed, c.removed) || !slices.Equal(got.changed, c.changed) {
			t.Errorf("%s\nto %s\nis %q", c.before, c.after, got)
		}
	}
	same := read("{}")
	d := differ(&same.Config, &same.Config, map[string]string{"/openapi/a/spec": "1"}, map[string]string{"/openapi/a/spec": "2"})
	if !slices.Equal(d.changed, []string{"/openapi/a/spec"}) || !d.touches("/openapi") || !d.touches("/openapi/a/spec") || d.touches("/open", "/openapi/a/spec/b") {
		t.Errorf("a file has changed: %q", d)
	}
}

// TestDigests: a file's digest follows what is at its path, however it came there.
func TestDigests(t *testing.T) {
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
	d := &digests{}
	last := d.of(path)
	if d.of(path) != last || !d.files[path].settled {
		t.Error("an old file is not the same the second time")
	}
	write(t, folder, "f", "eno")
	age(path)
	if d.of(path) != last {
		t.Error("a file of the same size and time is read again: that is done each second, for documents of many megabytes")
	}
	write(t, folder, "f", "one")
	age(path)
	for name, do := range map[string]func(){
		"written": func() { write(t, folder, "f", "two") },
		"renamed onto, of the same age and size": func() {
			other := write(t, folder, "other", "six")
			age(other)
			_ = os.Rename(other, path)
		},
		"behind a link that turns": func() {
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
		do()
		if now := d.of(path); now == last {
			t.Errorf("%s: the digest is the same", name)
		}
		write(t, folder, "g", "one")
		_ = os.Rename(filepath.Join(folder, "g"), path)
		age(path)
		if now := d.of(path); now != last {
			t.Errorf("after %s it holds what it held: %s, was %s", name, now, last)
		}
	}
	if d.of(folder) != irregular || d.of(filepath.Join(folder, "none")) != gone {
		t.Error("what is no file")
	}
}

// TestDocumentFiles: what a document refers to in its folder is found, through other files, and nothing else.
func TestDocumentFiles(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	spec := write(t, folder, "api.yaml", "a: {$ref: 'b.yaml#/x'}\nb:\n  $ref: \"#/y\"\nc: {\"$ref\": \"c.json\"}\nd: {$ref: 'https://example.com/d.yaml'}\ne: {$ref: '../e.yaml'}\nf: {$ref: /etc/passwd}\n")
	write(t, folder, "b.yaml", "x: {$ref: api.yaml#/z}\n")
	write(t, folder, "c.json", `{"x":{"$ref":"gone.json#/a"}}`)
	var want []string
	for _, name := range []string{"api.yaml", "b.yaml", "c.json", "gone.json"} {
		want = append(want, filepath.Join(folder, name))
	}
	if got := documentFiles(&config.OpenAPI{Spec: &spec}); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	remote := "https://example.com/api.yaml"
	if got := documentFiles(&config.OpenAPI{Spec: &remote}); got != nil {
		t.Errorf("behind a URL: %q", got)
	}
}

// TestCachesHearOfWrites: a write through the functions of one configuration drops what another one's cache holds of the source.
func TestCachesHearOfWrites(t *testing.T) {
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
		was := call(0, "a.read")
		if again := call(1, "a.read"); again != was {
			t.Errorf("before a write: %s, %s", was, again)
		}
		call(writer, "a.write")
		if one, other := call(0, "a.read"), call(1, "a.read"); one != was+"1" || other != one {
			t.Errorf("after a write through %d: %s and %s, want %s1", writer, one, other, was)
		}
	}
	mu.Lock()
	value = "other"
	mu.Unlock()
	if got := call(0, "a.read"); got != "1111" {
		t.Errorf("what nothing has changed is not cached: %s", got)
	}
}

// TestRedactorKnowsAllInUse: the secrets of each configuration in use are taken out, and those of none other.
func TestRedactorKnowsAllInUse(t *testing.T) {
	t.Parallel()
	r := &redactor{}
	one, two := &app{}, &app{}
	if got := r.Text("first-secret"); got != "first-secret" {
		t.Errorf("without any: %q", got)
	}
	r.learn(one, []string{"first-secret"})
	r.learn(two, []string{"second-secret"})
	if got := r.Text("first-secret second-secret"); strings.Contains(got, "secret") {
		t.Errorf("with both: %q", got)
	}
	r.forget(one)
	if got := r.Text("first-secret second-secret"); got != "first-secret [redacted]" {
		t.Errorf("with the second: %q", got)
	}
	r.forget(two)
	if got := r.Text("second-secret"); strings.Contains(got, "secret") {
		t.Errorf("the last one's are shown at the end: %q", got)
	}
}
