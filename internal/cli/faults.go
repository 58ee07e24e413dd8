package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/fatih/color"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/chainfile"
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
		shown, before := chainfile.Window(line, caret, width-len(margin))
		fmt.Fprintf(b, "%s%s\n%s%s%s\n", margin, shown, margin, strings.Repeat(" ", before), paint(red, "^"))
	}
	if nearest := f.Nearest; len(nearest) > 0 && !chainfile.Mentions(f.Message, nearest[0]) {
		fmt.Fprintf(b, "%sdid you mean %s?\n", margin, textfile.Printable(strings.Join(nearest, ", ")))
	}
}

const margin = "    "

// locate returns the line to show and the byte in it that the caret marks.
func (doc *document) locate(f *fault.Error) (line string, caret int) {
	return chainfile.Excerpt(doc.text, f)
}

// column returns the column to show. It is that of the caret if the caret is in a line of the document.
func (doc *document) column(f *fault.Error, line string, caret int) int {
	if docLine, _ := chainfile.Line(doc.text, f.Line); line == "" || docLine != line {
		return f.Column
	}
	return utf8.RuneCountInString(line[:caret]) + 1
}
