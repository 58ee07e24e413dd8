package difference

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/onecall-mcp/onecall/internal/rawjson"
)

// unified returns the changes as a unified diff, or nil if it cannot tell all of them, or none is of a text with several lines.
func (c *comparison) unified() []byte {
	if len(c.changes) > maxTexts || !slices.ContainsFunc(c.changes, change.hasLines) {
		return nil
	}
	var out []byte
	for _, one := range c.changes {
		earlier, now, ok := one.texts()
		if !ok {
			return nil
		}
		before, after := one.at, one.at
		if one.at == "" {
			before, after = "earlier", "now"
		}
		out = fmt.Appendf(out, "--- %s\n+++ %s\n%s", before, after, hunks(earlier, now))
	}
	return out
}

// hasLines reports whether one of the sides is a text with several lines.
func (c change) hasLines() bool {
	return isText(c.earlier) && bytes.Contains(c.earlier, []byte(`\n`)) || isText(c.now) && bytes.Contains(c.now, []byte(`\n`))
}

// texts returns both sides of a change as texts. It reports false if they are not two plain strings or two other scalars, or if the JSON
// Pointer does not fit on the line that names it.
func (c change) texts() (earlier, now []byte, ok bool) {
	switch {
	case strings.ContainsFunc(c.at, unicode.IsControl):
		return nil, nil, false
	case isText(c.earlier) && isText(c.now):
		before, after := rawjson.Unquote(string(c.earlier)), rawjson.Unquote(string(c.now))
		return []byte(before), []byte(after), isPlain(before) && isPlain(after)
	}
	return append(bytes.Clone(c.earlier), '\n'), append(bytes.Clone(c.now), '\n'), isScalar(c.earlier) && isScalar(c.now)
}

// sameText reports whether two strings are the same text.
func sameText(a, b []byte) bool {
	text := rawjson.Unquote(string(a))
	return text == rawjson.Unquote(string(b)) && isPlain(text)
}

// isPlain reports whether an unquoted text is surely what was quoted: it has no character that also stands for what UTF-8 does not have,
// such as half a surrogate pair.
func isPlain(text string) bool { return !strings.ContainsRune(text, '\uFFFD') }

// isText reports whether there is a value, and it is a string.
func isText(value []byte) bool { return len(value) > 0 && value[0] == '"' }

// isScalar reports whether there is a value, and it is a number, a boolean or null.
func isScalar(value []byte) bool {
	return len(value) > 0 && value[0] != '"' && value[0] != '{' && value[0] != '['
}
