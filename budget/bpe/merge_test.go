package bpe

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// runs draws texts with long chains of merges: few different letters, many repetitions.
func runs(t *rapid.T, length int) []byte {
	pieces := rapid.OneOf(
		rapid.StringOfN(rapid.RuneFrom([]rune("ab")), 1, 40, -1),
		rapid.StringOfN(rapid.RuneFrom([]rune("aeinrst")), 1, 40, -1),
		rapid.StringOfN(rapid.RuneFrom([]rune("ABCDEabcde=/+ -_\n")), 1, 40, -1),
		rapid.StringOfN(rapid.RuneFrom([]rune("的一是漢字仮名かなのはい")), 1, 20, -1),
		rapid.Map(rapid.SliceOfN(rapid.Byte(), 1, 30), func(b []byte) string { return string(b) }),
		rapid.Custom(func(t *rapid.T) string {
			unit := rapid.StringOfN(rapid.RuneFrom([]rune("abcdehilnorst =\n")), 1, 4, -1).Draw(t, "unit")
			return strings.Repeat(unit, rapid.IntRange(1, 60).Draw(t, "times"))
		}),
	)
	text := strings.Join(rapid.SliceOfN(pieces, 1, 8).Draw(t, "parts"), "")
	return []byte(text[:min(length, len(text))])
}

func TestMerge(t *testing.T) {
	t.Parallel()
	v := tables().vocabulary
	rapid.Check(t, func(t *rapid.T) {
		text := runs(t, maxShort)
		want := len(theOracle().merge(string(text)))
		if got := v.mergeShort(text); got != want {
			t.Fatalf("mergeShort makes %d tokens of %q, want %d", got, text, want)
		}
		if got := v.mergeLong(text, len(text), window, margin); got != want {
			t.Fatalf("mergeLong makes %d tokens of %q, want %d", got, text, want)
		}
	})
}

// The size of the windows does not change the count, and a merge above its limit returns more than the limit.
func TestMergeInWindows(t *testing.T) {
	t.Parallel()
	v := tables().vocabulary
	rapid.Check(t, func(t *rapid.T) {
		text := runs(t, 600)
		want := len(theOracle().merge(string(text)))
		size := rapid.IntRange(2, 200).Draw(t, "size")
		margin := rapid.IntRange(1, size-1).Draw(t, "margin")
		if got := v.mergeLong(text, len(text), size, margin); got != want {
			t.Fatalf("%d tokens of %q with windows of %d and a margin of %d, want %d", got, text, size, margin, want)
		}
		spare := rapid.IntRange(0, len(text)).Draw(t, "spare")
		if got := v.mergeLong(text, spare, size, margin); got != want && (got <= spare || want <= spare) {
			t.Fatalf("%d tokens of %q with a limit of %d, want %d", got, text, spare, want)
		}
	})
}
