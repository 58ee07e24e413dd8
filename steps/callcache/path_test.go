package callcache

import (
	pathpkg "path"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestParsePath(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ text, want, write string }{ // write "": the same
		{"/a/b.txt", "/ a/b.txt/", ""},
		{"a//./b/", ". a/b/", ""},
		{"", ". ", ""}, {".", ". ", ""}, {"/", "/ ", ""},
		{`C:\Users\X`, ": c:/users/x/", ""}, {"c:/users/x", ": c:/users/x/", ""}, {"C:x", "anywhere", ""},
		{`\\host\share\a`, `\ host/share/a/`, ""}, {"//host/share", `\ host/share/`, ""},
		{"/A/É", "/ a/é/", ""}, {"/a/E\u0301", "/ a/é/", ""}, {"/a. /b ..", "/ a/b/", ""},
		{"/a/../b", "anywhere", ""}, {"..", "anywhere", ""}, {"~/a", "anywhere", ""},
		{"file:///a", "anywhere", ""}, {"file:/a", "anywhere", ""}, {"https://x/a", "anywhere", ""},
		{"/a/*/b", "/ a/", ""}, {"src/[id]/x", ". src/", ""}, {"$HOME/x", ". ", ""}, {"/a/%20", "/ a/", ""},
		{"/a/.git/config", "/ a/.git/config/", "/ a/"}, {"./.env", ". .env/", ". "},
	} {
		show := func(p path) string {
			if p.base == 0 {
				return "anywhere"
			}
			return string(p.base) + " " + p.text
		}
		if test.write == "" {
			test.write = test.want
		}
		if got := show(parsePath(test.text, false)); got != test.want {
			t.Errorf("%q is %q, want %q", test.text, got, test.want)
		}
		if got := show(parsePath(test.text, true)); got != test.write {
			t.Errorf("%q of a write is %q, want %q", test.text, got, test.write)
		}
	}
}

func within(a, b string) bool {
	a, b = pathpkg.Clean(a), pathpkg.Clean(b)
	if a == b || b == "/" && strings.HasPrefix(a, "/") {
		return true
	}
	return strings.HasPrefix(a, b+"/") || b == "." && !strings.HasPrefix(a, "/")
}

// Whatever lies within another by the rules of POSIX is related, and $HOME aside two plain paths that do not are not.
func TestRelatedPaths(t *testing.T) {
	t.Parallel()
	element := rapid.SampledFrom([]string{"a", "b", "ab", "c.txt", ".git", ".", "..", "", "*", "A", "a ", `d\e`})
	plain := rapid.SampledFrom([]string{"a", "b", "ab", "c.txt"})
	rapid.Check(t, func(t *rapid.T) {
		some := func(element *rapid.Generator[string]) string {
			return rapid.SampledFrom([]string{"/", ""}).Draw(t, "root") + strings.Join(rapid.SliceOfN(element, 0, 5).Draw(t, "path"), "/")
		}
		a, b := some(element), some(element)
		if (within(a, b) || within(b, a)) && !relatedPaths([]path{parsePath(a, true)}, []path{parsePath(b, false)}) {
			t.Fatalf("a write of %q does not touch %q", a, b)
		}
		a, b = "/"+some(plain), "/"+some(plain)
		if strings.HasPrefix(a, "//") != strings.HasPrefix(b, "//") {
			return
		}
		if got := relatedPaths([]path{parsePath(a, true)}, []path{parsePath(b, false)}); got != (within(a, b) || within(b, a)) {
			t.Fatalf("%q and %q: %t", a, b, got)
		}
	})
}

func FuzzParsePath(f *testing.F) {
	for _, seed := range []string{"/a/b", `C:\a`, "..", "~", "file:///a", "/a/./b//", "\xff", "a/*", "."} {
		f.Add(seed, "b")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		for _, write := range []bool{false, true} {
			p := parsePath(a, write)
			if !p.related(parsePath(a, false)) || !parsePath(a, false).related(p) {
				t.Errorf("%q is not related to itself", a)
			}
			if inner := a + "/" + b; !p.related(parsePath(inner, false)) {
				t.Errorf("%q is not related to %q within it", a, inner)
			}
			if p.text != "" && !strings.HasSuffix(p.text, "/") {
				t.Errorf("%q gives %q", a, p.text)
			}
		}
	})
}
