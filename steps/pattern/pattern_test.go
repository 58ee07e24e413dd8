package pattern

import (
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestFits compares with the regular expression that says the same.
func TestFits(t *testing.T) {
	t.Parallel()
	text := rapid.StringOfN(rapid.SampledFrom([]rune("ab.é*?(\x00")), 0, 12, -1)
	rapid.Check(t, func(t *rapid.T) {
		pattern, name := text.Draw(t, "pattern"), text.Draw(t, "name")
		quoted := strings.NewReplacer(`\*`, `.*`, `\?`, `.`).Replace(regexp.QuoteMeta(pattern))
		if want := regexp.MustCompile(`^(?s:` + quoted + `)$`).MatchString(name); Fits(pattern, name) != want {
			t.Fatalf("Fits(%q, %q) is not %t", pattern, name, want)
		}
	})
	if long := strings.Repeat("a*", 100); Fits(long+"b", strings.Repeat("a", 10_000)) {
		t.Error("a pattern of many stars fits what lacks its end")
	}
}

// TestCouldFit looks for a name behind a prefix that a pattern fits: each character of the pattern as it is, where it can be.
func TestCouldFit(t *testing.T) {
	t.Parallel()
	letters := rapid.SampledFrom([]rune("ab.é"))
	rapid.Check(t, func(t *rapid.T) {
		pattern := rapid.StringOfN(rapid.OneOf(letters, rapid.SampledFrom([]rune("*?"))), 0, 6, -1).Draw(t, "pattern")
		prefix := rapid.StringOfN(letters, 0, 4, -1).Draw(t, "prefix")
		ok := false
		// Whatever fits the rest of the pattern is made by writing a for its ? and nothing for its *, or one a.
		for cut := range len(pattern) + 1 {
			rest := strings.NewReplacer("*", "", "?", "a").Replace(strings.ToValidUTF8(pattern[cut:], ""))
			ok = ok || rest != "" && Fits(pattern, prefix+rest) || Fits(pattern, prefix+"a"+rest)
		}
		if CouldFit(pattern, prefix) != ok {
			t.Fatalf("CouldFit(%q, %q) is not %t", pattern, prefix, ok)
		}
	})
}
