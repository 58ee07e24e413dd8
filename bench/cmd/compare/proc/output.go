package proc

import (
	"os"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// tail keeps the last bytes that are written to it. The zero value is ready.
type tail struct {
	mu   sync.Mutex
	text []byte
}

// kept is how many bytes a tail keeps.
const kept = 16 << 10

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, b[max(0, len(b)-kept):]...)
	if excess := len(t.text) - kept; excess > 0 {
		t.text = append(t.text[:0], t.text[excess:]...)
	}
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.text)
}

// Scrub returns text in a form for reports: valid UTF-8, without control characters other than line feeds and tabs, and with "~" and
// "$TMP" in place of this machine's folders.
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
