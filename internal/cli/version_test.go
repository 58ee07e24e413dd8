package cli

import (
	"os"
	"regexp"
	"runtime/debug"
	"testing"
)

func TestVersionOf(t *testing.T) {
	t.Parallel()
	commit := []debug.BuildSetting{{Key: "vcs", Value: "git"}, {Key: "vcs.revision", Value: "80777a3c0ffee0123456789"}}
	for name, test := range map[string]struct {
		built    string
		settings []debug.BuildSetting
		want     string
	}{
		"a tag":                         {"v0.3.1", commit, "0.3.1"},
		"go install of a tag":           {"v0.3.1", nil, "0.3.1"},
		"commits after a tag":           {"v0.3.2-0.20261122163241-80777a3c0ffe", commit, "0.3.2-0.20261122163241-80777a3c0ffe"},
		"a checkout without tags":       {"v0.0.0-20261122163241-80777a3c0ffe+dirty", commit, Release + "-dev+80777a3c0ffe"},
		"a checkout, nothing recorded":  {"(devel)", nil, Release + "-dev"},
		"no version of the main module": {"", nil, Release + "-dev"},
	} {
		info := &debug.BuildInfo{Main: debug.Module{Version: test.built}, Settings: test.settings}
		if got := versionOf(info); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

// TestChangelog checks that the newest release in the changelog is Release.
func TestChangelog(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	first := regexp.MustCompile(`(?m)^## \[([0-9][^\]]*)\]`).FindSubmatch(text)
	if first == nil || string(first[1]) != Release {
		t.Errorf("the newest release in the changelog is %q, want %s", first, Release)
	}
}
