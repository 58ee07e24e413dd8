package schema

import "unicode/utf8"

// BoundDescription cuts a description to limit bytes, including the ellipsis, between characters. 0: no limit.
func BoundDescription(text string, limit int) string {
	const ellipsis = "…"
	if limit == 0 || len(text) <= limit {
		return text
	}
	end := max(limit-len(ellipsis), 0)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + ellipsis
}
