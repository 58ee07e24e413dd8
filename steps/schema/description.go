package schema

import "unicode/utf8"

// MaxDescription bounds, in bytes, the description of a function and the descriptions that a client reads in schemas, because
// clients cut longer texts.
const MaxDescription = 2048

// BoundDescription cuts a description to MaxDescription bytes, including the ellipsis, between characters.
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
