package files

import (
	"bufio"
	"bytes"
	"io"
	"unicode/utf8"

	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"
)

// Encodings that a byte order mark indicates. Text without one is UTF-8.
const utf16le, utf16be = "utf-16le", "utf-16be"

var utf8BOM = []byte("\xef\xbb\xbf")

// encodingOf returns the encoding according to the first bytes of a file; "" for UTF-8.
func encodingOf(head []byte) string {
	switch {
	case bytes.HasPrefix(head, []byte("\xff\xfe")):
		return utf16le
	case bytes.HasPrefix(head, []byte("\xfe\xff")):
		return utf16be
	}
	return ""
}

// fromUTF16 converts UTF-16 with a byte order mark to UTF-8 without one.
func fromUTF16(r io.Reader) io.Reader {
	return transform.NewReader(r, unicode.UTF16(unicode.LittleEndian, unicode.UseBOM).NewDecoder())
}

// textReader reads a file as UTF-8 without a byte order mark. encoding is the file's encoding; "": UTF-8.
func textReader(f io.Reader) (r *bufio.Reader, encoding string) {
	r = bufio.NewReaderSize(f, window)
	head, _ := r.Peek(len(utf8BOM))
	if encoding = encodingOf(head); encoding != "" {
		r = bufio.NewReaderSize(fromUTF16(r), window)
	} else if bytes.Equal(head, utf8BOM) {
		_, _ = r.Discard(len(utf8BOM)) // they were peeked at
	}
	return r, encoding
}

// maxShown bounds the characters of a line that fs.grep shows. If a match is later in its line, contextShown of them precede it.
const maxShown, contextShown = 400, 100

// cutAround returns the part of a line to show: all of it, or maxShown characters around the byte at. cut reports whether anything was
// left out; "…" replaces it.
func cutAround(text []byte, at int) (shown string, cut bool) {
	if len(text) <= maxShown || utf8.RuneCount(text) <= maxShown {
		return string(text), false
	}
	start := at
	for i := 0; i < contextShown && start > 0; i++ {
		_, size := utf8.DecodeLastRune(text[:start])
		start -= size
	}
	end := start
	for i := 0; i < maxShown && end < len(text); i++ {
		_, size := utf8.DecodeRune(text[end:])
		end += size
	}
	return ellipsis(start > 0) + string(text[start:end]) + ellipsis(end < len(text)), true
}

func ellipsis(cut bool) string {
	if cut {
		return "…"
	}
	return ""
}

// countLines returns the number of lines in a text; the last needs no line break.
func countLines(text []byte) int {
	n := bytes.Count(text, []byte{'\n'})
	if len(text) > 0 && text[len(text)-1] != '\n' {
		n++
	}
	return n
}

// lineStart returns the start of the n-th line of a text, from 1; the text's length if it has fewer lines.
func lineStart(text []byte, n int) int {
	start := 0
	for ; n > 1 && start < len(text); n-- {
		i := bytes.IndexByte(text[start:], '\n')
		if i < 0 {
			return len(text)
		}
		start += i + 1
	}
	return start
}
