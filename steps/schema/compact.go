package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
)

// maxDepth bounds the nesting of JSON: every later walk over it may recurse.
const maxDepth = 10_000

const (
	// MaxResultDepth bounds the nesting of results: what holds one (a line of a recording, an answer) can be read too.
	MaxResultDepth = 9_900
	// MaxArgumentsDepth bounds the nesting of arguments, which are compared with schemas and recordings.
	MaxArgumentsDepth = 1_000
)

// Compact checks that value is one JSON value (RFC 8259, UTF-8, nested at most 10,000 deep) and drops the white space
// between its tokens; all else keeps its bytes: number spellings, escapes, key order, duplicate keys. It returns the
// same slice when there is nothing to drop, and never changes value. Codes: bad_json, with Offset at the place.
func Compact(value []byte) ([]byte, error) {
	compact, f := CompactWithin(value, maxDepth)
	if f != nil {
		return nil, f
	}
	return compact, nil
}

// CompactWithin is Compact for a value nested at most that deep.
func CompactWithin(value []byte, most int) ([]byte, *fault.Error) {
	blanks, deep := outline(value, most)
	switch {
	case deep:
		return nil, fault.New(fault.BadJSON, "nested more than %d deep", most)
	case !utf8.Valid(value):
		return nil, fault.New(fault.BadJSON, "not valid UTF-8")
	case !gjson.ValidBytes(value):
		return nil, syntaxFault(value)
	case blanks == 0:
		return value, nil
	}
	compact := make([]byte, 0, len(value)-blanks)
	for i := 0; i < len(value); {
		switch value[i] {
		case ' ', '\t', '\n', '\r':
			i++
		case '"':
			end := stringEnd(value, i)
			compact = append(compact, value[i:end]...)
			i = end
		default:
			compact = append(compact, value[i])
			i++
		}
	}
	return compact, nil
}

// outline counts the blanks between tokens and looks at the depth, before anything recurses over the value. It must
// cope with what is not JSON.
func outline(value []byte, most int) (blanks int, deep bool) {
	depth := 0
	for i := 0; i < len(value); i++ {
		switch value[i] {
		case '"':
			i = stringEnd(value, i) - 1
		case '{', '[':
			if depth++; depth > most {
				return 0, true
			}
		case '}', ']':
			depth--
		case ' ', '\t', '\n', '\r':
			blanks++
		}
	}
	return blanks, false
}

// stringEnd returns the index after the string that begins with the quote at start; the end of b when it is not closed.
func stringEnd(b []byte, start int) int {
	i := start + 1
	for {
		n := bytes.IndexByte(b[i:], '"')
		if n < 0 {
			return len(b)
		}
		quote := i + n
		escapes := 0
		for quote-1-escapes >= i && b[quote-1-escapes] == '\\' {
			escapes++
		}
		if escapes%2 == 0 {
			return quote + 1
		}
		i = quote + 1
	}
}

func syntaxFault(value []byte) *fault.Error {
	f := fault.New(fault.BadJSON, "not one JSON value")
	var raw json.RawMessage
	var syntax *json.SyntaxError
	if errors.As(json.Unmarshal(value, &raw), &syntax) {
		f.Message += ": " + syntax.Error()
		f.Offset = int(syntax.Offset)
	}
	return f
}
