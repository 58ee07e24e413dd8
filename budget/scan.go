package budget

import (
	"bytes"
	"iter"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/onecall-mcp/onecall/internal/rawjson"
)

// The functions of this file read valid JSON without decoding it. With anything else they end early and never fail.

// kind is the type of a JSON value: a byte that such a value may begin with.
type kind byte

const (
	unknown kind = 0
	object  kind = '{'
	array   kind = '['
	text    kind = '"'
	number  kind = '0'
	boolean kind = 't'
	null    kind = 'n'
)

func kindOf(value []byte) kind {
	i := rawjson.SkipBlanks(value, 0)
	if i == len(value) {
		return unknown
	}
	switch c := value[i]; c {
	case '{', '[', '"', 't', 'n':
		return kind(c)
	case 'f':
		return boolean
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return number
	}
	return unknown
}

// lines yields the start and end of each line in the body of a string. A line includes its line feed. The text after the last line feed
// is a line, too, unless it is empty.
func lines(body []byte) iter.Seq2[int, int] {
	return func(yield func(start, end int) bool) {
		start := 0
		for i := 0; i < len(body); {
			escape := bytes.IndexByte(body[i:], '\\')
			if escape < 0 {
				break
			}
			i += escape
			n := escapeLength(body[i:])
			if isLineFeed(body[i : i+n]) {
				if !yield(start, i+n) {
					return
				}
				start = i + n
			}
			i += n
		}
		if start < len(body) {
			yield(start, len(body))
		}
	}
}

func isLineFeed(escape []byte) bool {
	return len(escape) == 2 && escape[1] == 'n' || len(escape) == 6 && bytes.EqualFold(escape, []byte(`\u000a`))
}

// escapeLength returns the length of the escape sequence at the beginning of s: one escape, or two of a surrogate pair.
func escapeLength(s []byte) int {
	n := unitLength(s)
	if n == 6 && unitLength(s[6:]) == 6 && utf16.DecodeRune(codeUnit(s), codeUnit(s[6:])) != utf8.RuneError {
		return 12
	}
	return n
}

// unitLength returns the length of a single escape, or 0 if s does not begin with one.
func unitLength(s []byte) int {
	switch {
	case len(s) == 0 || s[0] != '\\':
		return 0
	case len(s) >= 6 && s[1] == 'u':
		return 6
	}
	return min(len(s), 2)
}

// codeUnit returns the UTF-16 code unit of a \u escape.
func codeUnit(escape []byte) rune {
	n, _ := strconv.ParseUint(string(escape[2:6]), 16, 16)
	return rune(n)
}

// cutBody cuts the body of a string after n characters, counting an escape sequence as one, and reports whether it removed anything.
func cutBody(body []byte, n int) ([]byte, bool) {
	i := 0
	for ; n > 0 && i < len(body); n-- {
		if body[i] == '\\' {
			i += escapeLength(body[i:])
			continue
		}
		_, size := utf8.DecodeRune(body[i:])
		i += size
	}
	return body[:i], i < len(body)
}

// cutText cuts plain text after n characters and reports whether it removed anything.
func cutText(s []byte, n int) ([]byte, bool) {
	i := 0
	for ; n > 0 && i < len(s); n-- {
		_, size := utf8.DecodeRune(s[i:])
		i += size
	}
	return s[:i], i < len(s)
}
