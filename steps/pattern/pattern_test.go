package pattern

import (
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestMatches compares with the equivalent regular expression.
func TestMatches(t *testing.T) {
	t.Parallel()
	text := rapid.StringOfN(rapid.SampledFrom([]rune("ab.é*?(\x00")), 0, 12, -1)
	rapid.Check(t, func(t *rapid.T) {
		pattern, name := text.Draw(t, "pattern"), text.Draw(t, "name")
		quoted := strings.NewReplacer(`\*`, `.*`, `\?`, `.`).Replace(regexp.QuoteMeta(pattern))
		if want := regexp.MustCompile(`^(?s:` + quoted + `)$`).MatchString(name); Matches(pattern, name) != want {
			t.Fatalf("Matches(%q, %q) = %t, want %t", pattern, name, !want, want)
		}
	})
	if long := strings.Repeat("a*", 100); Matches(long+"b", strings.Repeat("a", 10_000)) {
		t.Error("a pattern of many stars matches a name without its last character")
	}
}

// TestCouldMatch compares with a search for a longer name that the pattern matches.
func TestCouldMatch(t *testing.T) {
	t.Parallel()
	letters := rapid.SampledFrom([]rune("ab.é"))
	rapid.Check(t, func(t *rapid.T) {
		pattern := rapid.StringOfN(rapid.OneOf(letters, rapid.SampledFrom([]rune("*?"))), 0, 6, -1).Draw(t, "pattern")
		prefix := rapid.StringOfN(letters, 0, 4, -1).Draw(t, "prefix")
		ok := false
		// The rest of the pattern matches itself, with a for each ? and nothing, or one a, for each *.
		for cut := range len(pattern) + 1 {
			rest := strings.NewReplacer("*", "", "?", "a").Replace(strings.ToValidUTF8(pattern[cut:], ""))
			ok = ok || rest != "" && Matches(pattern, prefix+rest) || Matches(pattern, prefix+"a"+rest)
		}
		if CouldMatch(pattern, prefix) != ok {
			t.Fatalf("CouldMatch(%q, %q) = %t, want %t", pattern, prefix, !ok, ok)
		}
	})
}
