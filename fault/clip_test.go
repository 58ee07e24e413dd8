package fault_test

import (
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/fault"
)

func TestClip(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		text         string
		n            int
		bytes, runes string
	}{
		{"abc", 3, "abc", "abc"}, {"abcd", 3, "abc…", "ab…"}, {"äöü", 3, "ä…", "äöü"}, {"äöüß", 3, "ä…", "äö…"}, {"abc", 0, "…", ""}, {"", 0, "", ""},
		{"a\xffb", 2, "a\xff…", "a…"}, {"ab", 1, "a…", "…"},
	} {
		if got := fault.Clip(test.text, test.n); got != test.bytes {
			t.Errorf("Clip(%q, %d) = %q, want %q", test.text, test.n, got, test.bytes)
		}
		if got := fault.ClipRunes(test.text, test.n); got != test.runes {
			t.Errorf("ClipRunes(%q, %d) = %q, want %q", test.text, test.n, got, test.runes)
		}
	}
}

// TestShort: a text from outside is bounded, and always UTF-8.
func TestShort(t *testing.T) {
	t.Parallel()
	full := strings.Repeat("a", 200)
	for text, want := range map[string]string{
		"": "", full: full, full + "b": full + "…", full[1:] + "äb": full[1:] + "…", "a\xffb": "a\ufffdb",
	} {
		if got := fault.Short(text); got != want {
			t.Errorf("Short(%q) = %q, want %q", text, got, want)
		}
	}
}
