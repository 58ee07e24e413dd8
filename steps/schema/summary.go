package schema

import (
	"strings"
	"unicode/utf8"
)

// maxSummary bounds a summary, in characters.
const maxSummary = 120

// Summary returns the first sentence of a description on one line, at most 120 characters; "" if there is no description.
func Summary(description string) string {
	text := strings.Join(strings.Fields(description), " ")
	for i := 0; i < len(text); i++ {
		next := strings.IndexAny(text[i:], ".!?")
		if next < 0 {
			break
		}
		i += next
		// The mark ends a sentence if nothing follows, or if a blank and then no lower-case letter follow. It does not if a period stands
		// two characters before it ("e.g. This"), or if it is among the first three characters.
		after := text[i+1:]
		if after == "" || i > 2 && after[0] == ' ' && text[i-2] != '.' && startsSentence(after[1:]) {
			text = text[:i+1]
			break
		}
	}
	if utf8.RuneCountInString(text) <= maxSummary {
		return strings.TrimSuffix(text, ".")
	}
	cut := string([]rune(text)[:maxSummary-1])
	if space := strings.LastIndexByte(cut, ' '); space > maxSummary/2 {
		cut = cut[:space]
	}
	return strings.TrimRight(cut, " ,;:") + "…"
}

// startsSentence reports whether a text begins with anything but a lower-case letter.
func startsSentence(text string) bool {
	return text != "" && (text[0] < 'a' || text[0] > 'z')
}
