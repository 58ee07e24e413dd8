package schema

import "unicode/utf8"

// MaxDescription bounds the description of a function, in bytes, and likewise of what a client reads in schemas: clients cut what
// is longer.
const MaxDescription = 2048

// BoundDescription cuts a description to MaxDescription bytes, an ellipsis included, between characters.
func BoundDescription(text string) string {
	const ellipsis = "…"
	if len(text) <= MaxDescription {
		return text
	}
	end := MaxDescription - len(ellipsis)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + ellipsis
}
