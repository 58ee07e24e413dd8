package config

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestCompare: settings that are added, removed or changed are reported by pointer, without values.
func TestCompare(t *testing.T) {
	t.Parallel()
	read := func(text string) *File {
		c, faults := Parse("onecall.yaml", []byte(text), func(string) (string, bool) { return "a-secret-word", true })
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
		{"functions: {x.y: {defaults: {n: 1.0}}}", "functions: {x.y: {defaults: {n: 1.5}}}", nil, nil, []string{"/functions/x.y/defaults/n"}},
		{"mcpServers: {a: {command: x, env: {K: '${V}'}}}", "mcpServers: {a: {command: x, env: {K: 'b'}}}", nil, nil,
			[]string{"/mcpServers/a/env/K"}},
		{"mcpServers: {a: &a {command: x}, b: *a}", "mcpServers: {a: {command: x}, b: {command: x}}", nil, nil, nil},
		{"access: {tokens: [{name: a, sha256: '1'}, {name: b, sha256: '2'}]}",
			"access: {tokens: [{name: b, sha256: '3', tier: admin}, {name: c, sha256: '4', functions: [fs.*]}]}",
			[]string{"/access/tokens/b/tier", "/access/tokens/c"}, []string{"/access/tokens/a"}, []string{"/access/tokens/b/sha256"}},
		{"access: {tokens: [{name: a, sha256: '1'}, {name: b, sha256: '2'}]}",
			"access: {tokens: [{name: b, sha256: '2'}, {name: a, sha256: '1'}]}", nil, nil, nil},
	} {
		got := Compare(read(c.before).Settings, read(c.after).Settings)
		if !slices.Equal(got.Added, c.added) || !slices.Equal(got.Removed, c.removed) || !slices.Equal(got.Changed, c.changed) {
			t.Errorf("comparing %s\nwith %s:\ngot %q, want added %q, removed %q, changed %q", c.before, c.after, got, c.added, c.removed, c.changed)
		}
	}
}

// TestSettingsLimit: aliases that repeat aliases are followed only up to the maximum number of values.
func TestSettingsLimit(t *testing.T) {
	t.Parallel()
	bomb := "x0: &a0 {k: v}\n"
	for i := range 30 {
		bomb += fmt.Sprintf("x%d: &a%d {l: *a%d, r: *a%d}\n", i+1, i+1, i, i)
	}
	for _, text := range []string{bomb, "hoist: &h [*h]\n", "functions: &f {a: *f}\n"} {
		c, _ := Parse("onecall.yaml", []byte(text), nil)
		if len(c.Settings) > 2*maxValues {
			t.Errorf("%.40q has %d settings, want at most %d", text, len(c.Settings), 2*maxValues)
		}
		for at := range c.Settings {
			if strings.Count(at, "/") > maxDepth+1 {
				t.Fatalf("%.40q has a setting deeper than maxDepth: %.80s", text, at)
			}
		}
	}
}
