package rawjson

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"

	"github.com/go-json-experiment/json/jsontext"
)

// Outline scans a text, which need not be JSON, before anything recurses over it. It counts the blanks between tokens, and
// returns the index of the first bracket nested deeper than maxDepth; -1 if there is none. If there is one, blanks counts only those
// before it.
func Outline[T Text](text T, maxDepth int) (blanks, deep int) {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			i = StringEnd(text, i) - 1
		case '{', '[':
			if depth++; depth > maxDepth {
				return blanks, i
			}
		case '}', ']':
			depth--
		case ' ', '\t', '\n', '\r':
			blanks++
		}
	}
	return blanks, -1
}

// AppendCompact appends a value without the blanks between its tokens.
func AppendCompact(dst, value []byte) []byte {
	for i := 0; i < len(value); {
		switch value[i] {
		case ' ', '\t', '\n', '\r':
			i++
		case '"':
			end := StringEnd(value, i)
			dst = append(dst, value[i:end]...)
			i = end
		default:
			dst = append(dst, value[i])
			i++
		}
	}
	return dst
}

// Inside returns what is between the quotes of a string or the brackets of an array, as written; nil for a value of one byte.
func Inside(value []byte) []byte {
	start := SkipBlanks(value, 0)
	end := len(value)
	for end > start && SkipBlanks(value[end-1:], 0) > 0 {
		end--
	}
	if end-start < 2 {
		return nil
	}
	return value[start+1 : end-1]
}

// Unquote returns the text of a string as encoding/json decodes it: a lone surrogate is U+FFFD. The text of a string
// without escapes is a slice of quoted.
func Unquote(quoted string) string {
	if len(quoted) < 2 {
		return ""
	}
	if strings.IndexByte(quoted, '\\') < 0 {
		return quoted[1 : len(quoted)-1]
	}
	text, _ := jsontext.AppendUnquote(nil, quoted) // the error reports invalid UTF-8, which is replaced
	return View(text)
}

// AppendQuote appends a text as a string with the fewest escapes. Invalid UTF-8 becomes U+FFFD.
func AppendQuote[T Text](dst []byte, text T) []byte {
	dst, _ = jsontext.AppendQuote(dst, text) // the error reports invalid UTF-8, which is replaced
	return dst
}

// Marshal returns v as compact JSON, like encoding/json but without the escapes that only HTML needs.
func Marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// Visible returns the same JSON value for a person to read: invisible characters, and those that change how others are
// shown, become \u escapes. These are control characters from DEL on, line separators, direction marks, and zero-width
// characters except accents.
func Visible(text []byte) []byte {
	var b bytes.Buffer
	for _, c := range string(text) {
		switch {
		case c < 0x7f || unicode.IsGraphic(c) && !unicode.In(c, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector):
			b.WriteRune(c)
		case c <= 0xffff:
			fmt.Fprintf(&b, `\u%04x`, c)
		default:
			high, low := utf16.EncodeRune(c)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		}
	}
	return b.Bytes()
}
