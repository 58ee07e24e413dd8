package refs

import (
	"strings"
	"unicode/utf8"

	"github.com/onecall-mcp/onecall/fault"
)

const hex = "0123456789abcdef"

// appendString appends s as a JSON string with the fewest escapes; bytes that are not UTF-8 become U+FFFD.
func appendString(dst []byte, s string) []byte {
	return append(AppendEscaped(append(dst, '"'), strings.ToValidUTF8(s, "\uFFFD")), '"')
}

// AppendEscaped appends s, which must be UTF-8, escaped for the inside of a JSON string.
func AppendEscaped(dst []byte, s string) []byte {
	start := 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		dst = append(dst, s[start:i]...)
		start = i + 1
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
	}
	return append(dst, s[start:]...)
}

// Bytes of a text that a caret or a message shows.
const (
	excerptSide = 100
	clipLength  = 60
)

// atOffset adds to e the line of text that contains offset, cut to a readable length, for a caret. It returns e.
func atOffset(e *fault.Error, text string, offset int) *fault.Error {
	offset = min(offset, len(text))
	// Only what can be shown is searched for line breaks: a long text may have many places that are looked at.
	start, end := max(0, offset-excerptSide-1), min(len(text), offset+excerptSide+1)
	if i := strings.LastIndexAny(text[start:offset], "\r\n"); i >= 0 {
		start += i + 1
	}
	if i := strings.IndexAny(text[offset:end], "\r\n"); i >= 0 {
		end = offset + i
	}
	if start < offset-excerptSide {
		for start = offset - excerptSide; start < offset && !utf8.RuneStart(text[start]); start++ {
		}
	}
	if end > offset+excerptSide {
		for end = offset + excerptSide; end > offset && !utf8.RuneStart(text[end]); end-- {
		}
	}
	e.Source, e.Offset = text[start:end], offset-start
	return e
}

// clip shortens a text for a message.
func clip(s string) string { return fault.Clip(s, clipLength) }
