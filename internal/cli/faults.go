package cli

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/fatih/color"
	"github.com/rivo/uniseg"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/config"
	"github.com/onecall-mcp/onecall/internal/textfile"
)

// document is a text that faults are shown in.
type document struct {
	name string
	text []byte
	file string // the file of a chain, for the command that resumes it; "": no file
	line int    // the file's line in which the text begins; 0 and 1: the first
	keys bool   // faults show the JSON pointers of their keys

	fromFlags map[string]string // by JSON pointer into the request: the flag that set the value over the text
}

// flagOf returns the flag that set the value that f is about; "" if the value is in the text.
func (doc *document) flagOf(f *fault.Error) string {
	for at := f.At; at != ""; at = at[:max(strings.LastIndexByte(at, '/'), 0)] {
		if flag := doc.fromFlags[at]; flag != "" {
			return flag
		}
	}
	return ""
}

// showFaults writes faults for a person, ordered by position: each with its position, message, the line with a caret, and similar names.
func (s *streams) showFaults(doc *document, faults []*fault.Error) {
	width := s.lineWidth()
	var b strings.Builder
	for _, f := range slices.SortedStableFunc(slices.Values(faults), doc.compare) {
		doc.render(&b, f, width, s.paintErr)
	}
	fmt.Fprint(s.err, b.String())
}

// showConfigurationFaults writes faults of a configuration for a person. They show their keys in place of the lines, which may hold
// secrets.
func (s *streams) showConfigurationFaults(wrong *config.Error) {
	s.showFaults(&document{name: wrong.File, keys: true}, wrong.Faults)
}

// compare orders faults by line and, within a line, by the column that is shown. Faults without a line keep their order.
func (doc *document) compare(a, b *fault.Error) int {
	if c := cmp.Compare(a.Line, b.Line); c != 0 || a.Line == 0 {
		return c
	}
	shown := func(f *fault.Error) int {
		line, caret := doc.locate(f)
		return doc.column(f, line, caret)
	}
	return cmp.Compare(shown(a), shown(b))
}

func (doc *document) render(b *strings.Builder, f *fault.Error, width int, paint func(*color.Color, string) string) {
	if flag := doc.flagOf(f); flag != "" {
		unlocated := *f
		unlocated.Line, unlocated.Column, unlocated.Source, unlocated.Offset = 0, 0, "", 0
		doc, f = &document{name: flag}, &unlocated
	}
	line, caret := doc.locate(f)
	position := textfile.Printable(doc.name)
	number := max(doc.line, 1) + f.Line - 1
	if f.Line > 0 {
		position += fmt.Sprintf(":%d", number)
		if column := doc.column(f, line, caret); column > 0 {
			position += fmt.Sprintf(":%d", column)
		}
	}
	message := strings.TrimPrefix(f.Message, fmt.Sprintf("line %d, column %d: ", number, f.Column)) // the position was written just before
	code := paint(red, string(f.Code))
	if doc.keys && f.At != "" {
		code += " at " + textfile.Printable(f.At)
	}
	fmt.Fprintf(b, "%s: %s: %s\n", paint(bold, position), code, textfile.Printable(strings.TrimSpace(message)))
	if line != "" {
		shown, before := window(line, caret, width-len(margin))
		fmt.Fprintf(b, "%s%s\n%s%s%s\n", margin, shown, margin, strings.Repeat(" ", before), paint(red, "^"))
	}
	if nearest := f.Nearest; len(nearest) > 0 && !mentions(f.Message, nearest[0]) {
		fmt.Fprintf(b, "%sdid you mean %s?\n", margin, textfile.Printable(strings.Join(nearest, ", ")))
	}
}

const margin = "    "

// mentions reports whether a message has a name as a whole word.
func mentions(message, name string) bool {
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

// locate returns the line to show and the byte in it that the caret marks. It is a line of the document if the fault's text is found
// there, otherwise the text that the fault carries; "" if neither is known.
func (doc *document) locate(f *fault.Error) (line string, caret int) {
	line, ok := lineAt(doc.text, f.Line)
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

// column returns the column to show. It is that of the caret if the caret is in a line of the document.
func (doc *document) column(f *fault.Error, line string, caret int) int {
	if docLine, _ := lineAt(doc.text, f.Line); line == "" || docLine != line {
		return f.Column
	}
	return utf8.RuneCountInString(line[:caret]) + 1
}

// lineAt returns a line, numbered from 1, without its line break; false: there is no such line.
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
	// Cut long lines before measuring them.
	head, tail := suffix(line[:caret], 4*width), prefix(line[caret:], 4*width)
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

// prefix and suffix return at most n bytes of a text, cut between characters.
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
