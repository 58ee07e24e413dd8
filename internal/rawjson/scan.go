// Package rawjson reads and writes raw JSON bytes, for what gjson and jsontext do not offer: the end of a value, the members of an object
// with their keys as written, the nesting of a text, a canonical form. The functions that only scan a text decode, copy and allocate
// nothing.
//
// Except for Outline, the functions require valid JSON. On anything else they end early and do not panic; only AppendCanonical may panic
// on a text that is empty or ends too early.
package rawjson

import (
	"iter"
	"strings"
	"unsafe"
)

// Text is a type that holds JSON.
type Text interface{ ~string | ~[]byte }

// View returns text as a string without copying it. The string must not outlive the next change of the bytes.
func View[T Text](text T) string { return *(*string)(unsafe.Pointer(&text)) }

// Bytes returns a text as bytes without copying it. They must not be changed.
func Bytes(text string) []byte { return unsafe.Slice(unsafe.StringData(text), len(text)) }

// SkipBlanks returns the index of the first byte from i that is not white space.
func SkipBlanks[T Text](text T, i int) int {
	for i < len(text) && (text[i] == ' ' || text[i] == '\n' || text[i] == '\r' || text[i] == '\t') {
		i++
	}
	return i
}

// StringEnd returns the index after the string whose opening quote is at start; the end of text if it is not closed.
func StringEnd[T Text](text T, start int) int { return stringEnd(View(text), start) }

func stringEnd(text string, start int) int {
	first := start + 1
	for i := first; i < len(text); i++ {
		n := strings.IndexByte(text[i:], '"')
		if n < 0 {
			break
		}
		i += n
		escapes := 0
		for i-1-escapes >= first && text[i-1-escapes] == '\\' {
			escapes++
		}
		if escapes%2 == 0 {
			return i + 1
		}
	}
	return len(text)
}

// ValueEnd returns the index after the value that begins at start.
func ValueEnd[T Text](text T, start int) int { return valueEnd(View(text), start) }

// Byte classes for the loops below.
var (
	structural = [256]bool{'"': true, '{': true, '}': true, '[': true, ']': true}
	ending     = [256]bool{',': true, ':': true, '}': true, ']': true, ' ': true, '\t': true, '\n': true, '\r': true}
)

func valueEnd(text string, start int) int {
	if start >= len(text) {
		return len(text)
	}
	switch text[start] {
	case '"':
		return stringEnd(text, start)
	case '{', '[':
		return nestedEnd(text, start)
	}
	i := start
	for i < len(text) && !ending[text[i]] {
		i++
	}
	return i
}

// nestedEnd returns the end of the object or array that begins at i.
func nestedEnd(text string, i int) int {
	depth := 0
	for i < len(text) {
		switch text[i] {
		case '"':
			i = stringEnd(text, i)
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
			if depth == 0 {
				return i + 1
			}
		}
		for i++; i < len(text) && !structural[text[i]]; i++ {
		}
	}
	return len(text)
}

// Elements yields the start and end of each element of an array; nothing for any other value.
func Elements(array []byte) iter.Seq2[int, int] {
	i := SkipBlanks(array, 0)
	if i == len(array) || array[i] != '[' {
		return valuesFrom(array, len(array))
	}
	return valuesFrom(array, i+1)
}

// Values yields the start and end of each value in a comma-separated list.
func Values(list []byte) iter.Seq2[int, int] { return valuesFrom(list, 0) }

func valuesFrom(text []byte, start int) iter.Seq2[int, int] {
	return func(yield func(start, end int) bool) {
		for i := SkipBlanks(text, start); i < len(text); i = SkipBlanks(text, i+1) { // past the comma
			end := ValueEnd(text, i)
			if end == i || !yield(i, end) {
				return
			}
			if i = SkipBlanks(text, end); i == len(text) || text[i] != ',' {
				return
			}
		}
	}
}

// Members yields each key of an object, as written with its quotes, and its value; nothing for any other value.
func Members(object []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		i := SkipBlanks(object, 0)
		if i == len(object) || object[i] != '{' {
			return
		}
		for i = SkipBlanks(object, i+1); i < len(object) && object[i] == '"'; i = SkipBlanks(object, i+1) { // past the comma
			keyEnd := StringEnd(object, i)
			colon := SkipBlanks(object, keyEnd)
			if colon == len(object) || object[colon] != ':' {
				return
			}
			start := SkipBlanks(object, colon+1)
			end := ValueEnd(object, start)
			if end == start || !yield(object[i:keyEnd], object[start:end]) {
				return
			}
			if i = SkipBlanks(object, end); i == len(object) || object[i] != ',' {
				return
			}
		}
	}
}

// Scalars yields the start and end of each string, key, number, boolean and null of a value, at any depth.
func Scalars(value []byte) iter.Seq2[int, int] {
	return func(yield func(start, end int) bool) {
		for i := 0; i < len(value); {
			if c := value[i]; ending[c] || c == '{' || c == '[' {
				i++
				continue
			}
			end := ValueEnd(value, i)
			if !yield(i, end) {
				return
			}
			i = end
		}
	}
}
