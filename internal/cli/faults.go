package cli

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/rivo/uniseg"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/textfile"
)

// source is the text that faults are shown in.
type source struct {
	name string
	text []byte
	file string // of a chain, which can be named to go on; "": it is none
	line int    // the line of the file in which the text begins; 0 and 1: the first
}

// showFaults writes faults for a person: where, what, the line with a caret under the place, and the nearest names.
func (s *streams) showFaults(src *source, faults []*fault.Error) {
	width := s.lineWidth()
	var b strings.Builder
	for _, f := range faults {
		src.render(&b, f, width)
	}
	fmt.Fprint(s.err, b.String())
}

func (src *source) render(b *strings.Builder, f *fault.Error, width int) {
	line, caret := src.place(f)
	b.WriteString(textfile.Printable(src.name))
	if number := max(src.line, 1) + f.Line - 1; f.Line > 0 {
		fmt.Fprintf(b, ":%d", number)
		if column := src.column(f, line, caret); column > 0 {
			fmt.Fprintf(b, ":%d", column)
		}
	}
	fmt.Fprintf(b, ": %s: %s\n", f.Code, textfile.Printable(strings.TrimSpace(f.Message)))
	if line != "" {
		shown, before := window(line, caret, width-len(margin))
		fmt.Fprintf(b, "%s%s\n%s%s^\n", margin, shown, margin, strings.Repeat(" ", before))
	}
	if nearest := f.Nearest; len(nearest) > 0 && !mentions(f.Message, nearest[0]) {
		fmt.Fprintf(b, "%sdid you mean %s?\n", margin, textfile.Printable(strings.Join(nearest, ", ")))
	}
}

const margin = "    "

// mentions reports whether a message has a name as a word of its own, not only as a part of another.
func mentions(message, name string) bool {
	for rest := message; ; {
		_, after, found := strings.Cut(rest, name)
		if !found {
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

// place gives the text to show and the byte in it that the caret marks: in the source's own line where the fault's place
// can be found there, else in the text that the fault brings with it; "" when neither is known.
func (src *source) place(f *fault.Error) (line string, caret int) {
	line, found := lineAt(src.text, f.Line)
	caret = textfile.Offset(line, f.Column)
	if f.Source == "" {
		if !found || f.Column < 1 {
			return "", 0
		}
		return line, caret
	}
	offset := min(max(f.Offset, 0), len(f.Source))
	if found {
		if at := strings.Index(line[caret:], f.Source); at >= 0 {
			return line, caret + at + offset
		}
	}
	return f.Source, offset
}

// column returns the column to show: that of the caret, if the caret is in the source's own line.
func (src *source) column(f *fault.Error, line string, caret int) int {
	if own, _ := lineAt(src.text, f.Line); line == "" || own != line {
		return f.Column
	}
	return utf8.RuneCountInString(line[:caret]) + 1
}

// lineAt returns a line, numbered from 1, without its line break.
func lineAt(text []byte, number int) (string, bool) {
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

// window cuts a line to a width around the caret. before is the number of columns before the caret.
func window(line string, caret, width int) (shown string, before int) {
	const ellipsis = "…"
	width = max(width, 20)
	// Long lines are cut to what can matter before anything is measured.
	head, tail := suffix(line[:caret], 4*width), prefix(line[caret:], 4*width)
	cutHead, cutTail := len(head) < caret, len(tail) < len(line)-caret
	head, tail = textfile.Printable(head), textfile.Printable(tail)
	for room := width * 2 / 3; uniseg.StringWidth(head) > room; cutHead = true {
		_, size := utf8.DecodeRuneInString(head)
		head = head[size:]
	}
	for room := width - uniseg.StringWidth(head) - 2; uniseg.StringWidth(tail) > room; cutTail = true {
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

// prefix and suffix are at most n bytes of a text, cut between characters.
func prefix(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}

func suffix(text string, n int) string {
	if len(text) <= n {
		return text
	}
	start := len(text) - n
	for start < len(text) && !utf8.RuneStart(text[start]) {
		start++
	}
	return text[start:]
}
