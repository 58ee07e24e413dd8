package chainfile

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rivo/uniseg"
)

func TestWindow(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"", "short", strings.Repeat("x", 5000), strings.Repeat("日本", 500), strings.Repeat("é\t", 300) + "👩‍👩‍👧‍👦"} {
		for _, width := range []int{0, 20, 79} {
			for caret := 0; caret <= len(line); caret += max(len(line)/7, 1) {
				if !utf8.RuneStart(append([]byte(line), ' ')[caret]) {
					continue
				}
				shown, before := Window(line, caret, width)
				if limit := max(width, 20); uniseg.StringWidth(shown) > limit || before > limit {
					t.Errorf("width %d: got %d columns, the caret at %d, want at most %d", width, uniseg.StringWidth(shown), before, limit)
				}
				if !utf8.ValidString(shown) {
					t.Errorf("%q is truncated inside a character", shown)
				}
				if caret < len(line) && before >= uniseg.StringWidth(shown) {
					t.Errorf("the caret is past the end of %q", shown)
				}
			}
		}
	}
}

func TestMentions(t *testing.T) {
	t.Parallel()
	for message, want := range map[string]bool{
		`unknown key "budgett"`: false, `unknown key "mybudget"`: false, `use budget`: true, `"budget" is it`: true,
		`budgets, or budget?`: true, `the budget-like`: false, ``: false,
	} {
		if Mentions(message, "budget") != want {
			t.Errorf("Mentions(%q) is %t, want %t", message, !want, want)
		}
	}
}
