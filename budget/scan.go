package budget

import (
	"bytes"
	"encoding/json"
	"iter"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// The functions of this file walk over JSON that is known to be valid, without decoding it. On anything else they end
// early and never fail.

// kind is the type of a JSON value, written as the byte that such a value may begin with.
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
	i := skipBlanks(value, 0)
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

// Byte classes for the scanning loops.
var (
	structural = [256]bool{'"': true, '{': true, '}': true, '[': true, ']': true}
	ending     = [256]bool{',': true, '}': true, ']': true, ' ': true, '\t': true, '\n': true, '\r': true}
)

func skipBlanks(v []byte, i int) int {
	for i < len(v) && (v[i] == ' ' || v[i] == '\n' || v[i] == '\r' || v[i] == '\t') {
		i++
	}
	return i
}

// skipValue is the end of the value that begins at v[i].
func skipValue(v []byte, i int) int {
	switch v[i] {
	case '"':
		return skipString(v, i)
	case '{', '[':
		return skipNested(v, i)
	}
	for i < len(v) && !ending[v[i]] {
		i++
	}
	return i
}

// skipString is the end of the string whose opening quote is v[i].
func skipString(v []byte, i int) int {
	for j := i + 1; ; j++ {
		quote := bytes.IndexByte(v[j:], '"')
		if quote < 0 {
			return len(v)
		}
		j += quote
		escapes := 0
		for v[j-1-escapes] == '\\' {
			escapes++
		}
		if escapes%2 == 0 {
			return j + 1
		}
	}
}

// skipNested is the end of the object or array that begins at v[i].
func skipNested(v []byte, i int) int {
	depth := 0
	for i < len(v) {
		switch v[i] {
		case '"':
			i = skipString(v, i)
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
			if depth == 0 {
				return i + 1
			}
		}
		for i++; i < len(v) && !structural[v[i]]; i++ {
		}
	}
	return len(v)
}

// elements gives the start and end of each element of an array.
func elements(v []byte) iter.Seq2[int, int] {
	i := skipBlanks(v, 0)
	if i == len(v) || v[i] != '[' {
		return valuesFrom(v, len(v))
	}
	return valuesFrom(v, i+1)
}

// values gives the start and end of each of the values that commas separate.
func values(v []byte) iter.Seq2[int, int] { return valuesFrom(v, 0) }

func valuesFrom(v []byte, begin int) iter.Seq2[int, int] {
	return func(yield func(start, end int) bool) {
		for i := skipBlanks(v, begin); i < len(v); i = skipBlanks(v, i+1) { // past the comma
			end := skipValue(v, i)
			if end == i || !yield(i, end) {
				return
			}
			if i = skipBlanks(v, end); i == len(v) || v[i] != ',' {
				return
			}
		}
	}
}

// members gives each key of an object, as it is spelled with its quotes, and its value.
func members(v []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		i := skipBlanks(v, 0)
		if i == len(v) || v[i] != '{' {
			return
		}
		for i = skipBlanks(v, i+1); i < len(v) && v[i] == '"'; i = skipBlanks(v, i+1) { // past the comma
			keyEnd := skipString(v, i)
			colon := skipBlanks(v, keyEnd)
			if colon == len(v) || v[colon] != ':' {
				return
			}
			start := skipBlanks(v, colon+1)
			if start == len(v) {
				return
			}
			end := skipValue(v, start)
			if end == start || !yield(v[i:keyEnd], v[start:end]) {
				return
			}
			if i = skipBlanks(v, end); i == len(v) || v[i] != ',' {
				return
			}
		}
	}
}

// unquoted is what stands between the quotes of a string, as it is spelled, or between the brackets of an array.
func unquoted(v []byte) []byte {
	v = bytes.TrimSpace(v)
	if len(v) < 2 {
		return nil
	}
	return v[1 : len(v)-1]
}

// decodeString is the text that a JSON string stands for.
func decodeString(v []byte) string {
	body := unquoted(v)
	if bytes.IndexByte(body, '\\') < 0 {
		return string(body)
	}
	var s string
	if json.Unmarshal(v, &s) != nil {
		return string(body)
	}
	return s
}

// lines gives the start and end of each line in the body of a string (see unquoted). A line ends with a line feed,
// which belongs to it; what follows the last one is a line too, unless it is empty.
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

// escapeLength is the length of the escape sequence that s begins with: one escape, or the two of a surrogate pair.
func escapeLength(s []byte) int {
	n := unitLength(s)
	if n == 6 && unitLength(s[6:]) == 6 && utf16.DecodeRune(codeUnit(s), codeUnit(s[6:])) != utf8.RuneError {
		return 12
	}
	return n
}

// unitLength is the length of a single escape, 0 where s does not begin with one.
func unitLength(s []byte) int {
	switch {
	case len(s) == 0 || s[0] != '\\':
		return 0
	case len(s) >= 6 && s[1] == 'u':
		return 6
	}
	return min(len(s), 2)
}

// codeUnit is the UTF-16 code unit of a \u escape.
func codeUnit(escape []byte) rune {
	n, _ := strconv.ParseUint(string(escape[2:6]), 16, 16)
	return rune(n)
}

// cutBody cuts the body of a string after n characters, an escape sequence being one, and tells whether anything was
// cut off.
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

// cutText cuts plain text after n characters and tells whether anything was cut off.
func cutText(s []byte, n int) ([]byte, bool) {
	i := 0
	for ; n > 0 && i < len(s); n-- {
		_, size := utf8.DecodeRune(s[i:])
		i += size
	}
	return s[:i], i < len(s)
}
