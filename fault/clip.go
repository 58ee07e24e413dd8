package fault

import (
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// Clip returns the first n bytes of a text at most, cut between characters. If something is cut off, an ellipsis follows.
func Clip(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n] + "…"
}

// maxShort is how many bytes of a name or a text from outside a message shows.
const maxShort = 200

// Short returns a name or a text from outside for a message: its first 200 bytes at most, as valid UTF-8.
func Short(text string) string { return strings.ToValidUTF8(Clip(text, maxShort), "\ufffd") }

// ClipRunes returns at most n characters of a text. If something is cut off, the last one is an ellipsis.
func ClipRunes(text string, n int) string {
	if n <= 0 {
		return ""
	}
	if len(text) <= n || utf8.RuneCountInString(text) <= n {
		return text
	}
	cut := 0
	for range n - 1 {
		_, size := utf8.DecodeRuneInString(text[cut:])
		cut += size
	}
	return text[:cut] + "…"
}

// maxQuoted is how many characters of a longer value a message shows, because the rest may be a secret or a document.
const maxQuoted = 60

// Quote returns an external text as a JSON string for a message. Of a text of more than 61 characters it shows 60 and an ellipsis.
func Quote(text string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(ClipRunes(text, maxQuoted+1)); err != nil {
		return `"…"`
	}
	return strings.TrimSuffix(b.String(), "\n")
}
