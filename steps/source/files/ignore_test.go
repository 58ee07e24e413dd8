package files_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/onecall-mcp/onecall/steps/source/files"
)

// gitUnignored lists the files of a repository that Git does not ignore.
func gitUnignored(t tester, root string) []string {
	cmd := exec.Command("git", "-c", "core.excludesFile=", "-c", "core.quotePath=false", "ls-files", "-z", "--others", "--exclude-standard")
	cmd.Dir, cmd.Env = root, append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL="+os.DevNull)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	names := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	slices.Sort(names)
	return names
}

func needGit(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
}

func gitInit(t tester, root string) {
	cmd := exec.Command("git", "init", "-q", "--template=", root)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL="+os.DevNull)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatal(err, string(out))
	}
}

// TestIgnoreAsGit compares the files that fs.find returns with the files that Git does not ignore, on random trees with random rules in
// nested .gitignore files and .git/info/exclude.
func TestIgnoreAsGit(t *testing.T) {
	t.Parallel()
	needGit(t)
	base := t.TempDir()
	n := 0
	names := []string{"a", "b", "ab", "abc", "a.o", "b.o", "x y", "{a}", "[a]", "build", "#h", "!n", "A1", "t ", `q\r`}
	rule := rapid.OneOf(
		rapid.SampledFrom([]string{"*.o", "/a", "a/", "!a", "!*.o", "build/", "a/b", "/a/b/", "**/a", "a/**", "a/**/b", "**/a/b", "!a/b", "*",
			"!*/", "/*",
			"{a}", "[a]", `\[a]`, `\#h`, "#h", `\!n`, "!n", "x y", "x y ", `t\ `, "t ", "a?", "?", "[!a]", "[^a]b", "[a-c]", "[]a]", "a[",
			"[[:alpha:]]", "[[:upper:][:digit:]]*",
			"a**", "**b", "a**c", "***", "**", "**/", "/**", "a/*", "a/*/b", "!/a", "/", "//", "", "  ", `q\\r`, `\`, `a\`, "[a-]", "[!]a]*",
			"a/***/b", "build/**/a.o", "*/a", "?/b", "[ab]/[ab]"}),
		rapid.StringOfN(rapid.SampledFrom([]rune(`aabb**/?![]c.o\ {}^-`)), 1, 7, -1),
	)
	rapid.Check(t, func(t *rapid.T) {
		n++
		root := filepath.Join(base, fmt.Sprint(n))
		gitInit(t, root)
		write := func(name, text string) {
			at := filepath.Join(root, name)
			if os.MkdirAll(filepath.Dir(at), 0o755) == nil {
				_ = os.WriteFile(at, []byte(text), 0o644) // fails if a folder already has the name
			}
		}
		name := rapid.SampledFrom(names)
		for range rapid.IntRange(1, 25).Draw(t, "files") {
			write(strings.Join(rapid.SliceOfN(name, 1, 4).Draw(t, "path"), "/"), "x")
		}
		rules := func(label string) string {
			lines := rapid.SliceOfN(rule, 0, 5).Draw(t, label)
			return strings.Join(lines, rapid.SampledFrom([]string{"\n", "\r\n"}).Draw(t, "break")) + "\n"
		}
		write(".gitignore", rules("root"))
		write(".git/info/exclude", rules("exclude"))
		for range rapid.IntRange(0, 3).Draw(t, "nested") {
			dir := filepath.Join(root, filepath.Join(rapid.SliceOfN(name, 1, 2).Draw(t, "folder")...))
			if info, err := os.Stat(dir); err == nil && info.IsDir() {
				_ = os.WriteFile(filepath.Join(dir, ".gitignore"), []byte(rules("nested")), 0o644)
			}
		}
		want := gitUnignored(t, root)
		s, err := files.New(&files.Options{Root: root})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		got := do[findResult](t, s, "fs.find", `{"pattern":"*","hidden":true}`).Files
		if len(got) == 0 {
			got = []string{""}
		}
		if !slices.Equal(got, want) {
			var b bytes.Buffer
			_ = filepath.Walk(root, func(at string, info os.FileInfo, _ error) error {
				if strings.HasSuffix(at, ".gitignore") || strings.HasSuffix(at, "exclude") {
					text, _ := os.ReadFile(at)
					fmt.Fprintf(&b, "%s: %q\n", at, text)
				}
				return nil
			})
			t.Fatalf("fs.find %q\ngit     %q\n%s", got, want, b.String())
		}
	})
}

// TestIgnoreBounds has more rules than the bounds allow: the first rules apply, and the result names the file that has more.
func TestIgnoreBounds(t *testing.T) {
	t.Parallel()
	rules := func(n int) string { return strings.Repeat("x\n", n) }
	for name, test := range map[string]struct {
		tree    map[string]string
		files   string
		skipped []skip
	}{
		"within":   {map[string]string{".gitignore": rules(100) + "*.o\n", "d/.gitignore": "*.p", "d/a.o": "", "d/a.p": ""}, "", nil},
		"one file": {map[string]string{".gitignore": "*.o\n" + rules(50_000), "a.o": "", "b": ""}, "b", []skip{{"ignore_size", 1, ".gitignore"}}},
		"nested files": {map[string]string{".gitignore": rules(50_000 - 2), "d/.gitignore": "*.o\n*.p\n*.q\n", "d/e/.gitignore": "*.r\n",
			"d/e/a.p": "", "d/e/a.q": "", "d/e/a.r": "", "f/.gitignore": "*.s\n", "f/a.s": ""}, "d/e/a.q d/e/a.r",
			[]skip{{"ignore_size", 2, "d/.gitignore"}}},
		"other folders": {map[string]string{"a/.gitignore": rules(50_000), "b/.gitignore": rules(50_000), "b/f": ""}, "b/f", nil},
		"repositories": {map[string]string{".git/x": "", ".gitignore": rules(50_000), "r/.git/x": "", "r/.gitignore": "*.o\n",
			"r/a.o": ""}, "r/a.o", []skip{{"ignore_size", 1, "r/.gitignore"}}},
		"bytes": {map[string]string{".gitignore": "*.o\n" + strings.Repeat("#"+strings.Repeat("x", 1022)+"\n", 1024) + "*.p\n",
			"a.o": "", "a.p": ""}, "a.p", []skip{{"ignore_size", 1, ".gitignore"}}},
		"truncated line": {map[string]string{".gitignore": strings.Repeat("#", (1<<20)-2) + "\na.p*\n", "a.o": "", "a.p": "",
			"a": ""}, "a a.o a.p", []skip{{"ignore_size", 1, ".gitignore"}}},
		"a folder": {map[string]string{".gitignore/x": "", "a": ""}, "a", []skip{{"unreadable", 1, ".gitignore"}}},
	} {
		s, _ := open(t, test.tree)
		got := do[findResult](t, s, "fs.find", `{"pattern":"*"}`)
		if strings.Join(got.Files, " ") != test.files || !slices.Equal(got.Skipped, test.skipped) {
			t.Errorf("%s: got %v, skipped %v; want %s, skipped %v", name, got.Files, got.Skipped, test.files, test.skipped)
		}
	}
	s, _ := open(t, map[string]string{".gitignore": rules(50_000 + 1), "d/f": ""})
	if got := do[findResult](t, s, "fs.find", `{"pattern":"*","path":"d"}`); len(got.Skipped) != 1 {
		t.Errorf("a folder below an ignored file that is too large: got %+v, want it skipped", got)
	}
}
