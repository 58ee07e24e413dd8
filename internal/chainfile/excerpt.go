package chainfile

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"github.com/rivo/uniseg"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/textfile"
)

// Excerpt returns the line of a text that shows a fault, and the byte in it that the fault is at. It is a line of the text if the fault's
// own text is found there, otherwise the text that the fault carries; "" if neither is known.
func Excerpt(text []byte, f *fault.Error) (line string, caret int) {
	line, ok := Line(text, f.Line)
	caret = textfile.Offset(line, f.Column)
	if f.Source == "" {
		if !ok || f.Column < 1 {
			return "", 0
		}
		return line, caret
	}
	offset := min(max(f.Offset, 0), len(f.Source))
	if ok {
		if at := strings.Index(line[caret:], f.Source); at >= 0 {
			return line, caret + at + offset
		}
	}
	return f.Source, offset
}

// Line returns a line, numbered from 1, without its line break; false: there is no such line.
func Line(text []byte, number int) (string, bool) {
	if number < 1 {
		return "", false
	}
	for range number - 1 {
		i := bytes.IndexByte(text, '\n')
		if i < 0 {
			return "", false
		}
		text = text[i+1:]
	}
	line, _, _ := bytes.Cut(text, []byte{'\n'})
	return strings.TrimSuffix(string(line), "\r"), true
}

// Window cuts a line to a width around the caret. before is the number of columns before the caret.
func Window(line string, caret, width int) (shown string, before int) {
	const ellipsis = "…"
	width = max(width, 20)
	// Cut long lines before measuring them.
	head, tail := textfile.Suffix(line[:caret], 4*width), textfile.Prefix(line[caret:], 4*width)
	cutHead, cutTail := len(head) < caret, len(tail) < len(line)-caret
	head, tail = textfile.Printable(head), textfile.Printable(tail)
	// The caret stands in the first two thirds, and two columns remain for an ellipsis on either side.
	for space := width * 2 / 3; uniseg.StringWidth(head) > space; cutHead = true {
		_, size := utf8.DecodeRuneInString(head)
		head = head[size:]
	}
	for space := width - uniseg.StringWidth(head) - 2; uniseg.StringWidth(tail) > space; cutTail = true {
		_, size := utf8.DecodeLastRuneInString(tail)
		tail = tail[:len(tail)-size]
	}
	if cutHead {
		head = ellipsis + head
	}
	if cutTail {
		tail += ellipsis
	}
	return head + tail, uniseg.StringWidth(head)
}

// Mentions reports whether a message has a name as a whole word.
func Mentions(message, name string) bool {
	for rest := message; ; {
		_, after, ok := strings.Cut(rest, name)
		if !ok {
			return false
		}
		before := message[:len(message)-len(after)-len(name)]
		if !endsInName(before) && !beginsWithName(after) {
			return true
		}
		rest = after
	}
}

func isNameByte(c byte) bool {
	return c == '_' || c == '-' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c >= 0x80
}

func endsInName(text string) bool { return text != "" && isNameByte(text[len(text)-1]) }

func beginsWithName(text string) bool { return text != "" && isNameByte(text[0]) }
