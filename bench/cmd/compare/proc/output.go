package proc

import (
	"os"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// tail keeps the last bytes that are written to it.
type tail struct {
	mu   sync.Mutex
	keep int
	text []byte
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, b[max(0, len(b)-t.keep):]...)
	if more := len(t.text) - t.keep; more > 0 {
		t.text = append(t.text[:0], t.text[more:]...)
	}
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.text)
}

// Scrub is text that may stand in a report: valid UTF-8 without control characters but line ends and tabs, and with "~" and "$TMP" for
// the folders of this machine.
func Scrub(text string) string {
	text = strings.Map(func(r rune) rune {
		if r == utf8.RuneError || unicode.IsControl(r) && r != '\n' && r != '\t' {
			return '.'
		}
		return r
	}, text)
	if home, err := os.UserHomeDir(); err == nil && len(home) > 1 {
		text = strings.ReplaceAll(text, home, "~")
	}
	if temp := strings.TrimRight(os.TempDir(), `/\`); len(temp) > 1 {
		text = strings.ReplaceAll(text, temp, "$TMP")
	}
	return text
}

// lastBytes is the end of text, at most n bytes, cut between characters.
func lastBytes(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for text = text[len(text)-n:]; len(text) > 0 && !utf8.RuneStart(text[0]); {
		text = text[1:]
	}
	return "…" + text
}
