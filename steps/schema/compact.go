package schema

import (
	"encoding/json"
	"errors"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/rawjson"
)

// maxDepth bounds the nesting of JSON, because later walks over it may recurse.
const maxDepth = 10_000

const (
	// MaxResultDepth bounds the nesting of results. It leaves room for the JSON that contains one, such as an answer.
	MaxResultDepth = 9_900
	// MaxArgumentsDepth bounds the nesting of arguments, which are compared with schemas and recordings.
	MaxArgumentsDepth = 1_000
)

// Compact checks that value is one JSON value (RFC 8259, UTF-8, nested at most 10,000 deep) and drops the white space
// between its tokens. Everything else keeps its bytes: numbers, escapes, key order, duplicate keys. It returns the same
// slice if there is nothing to drop, and never changes value. It fails with bad_json; for a syntax error, Offset is its position.
func Compact(value []byte) ([]byte, error) {
	compact, f := CompactWithin(value, maxDepth)
	if f != nil {
		return nil, f
	}
	return compact, nil
}

// CompactWithin is Compact for values nested at most depth levels deep.
func CompactWithin(value []byte, depth int) ([]byte, *fault.Error) {
	blanks, deep := rawjson.Outline(value, depth)
	switch {
	case deep >= 0:
		return nil, fault.New(fault.BadJSON, "nested more than %d levels deep", depth)
	case !utf8.Valid(value):
		return nil, fault.New(fault.BadJSON, "not valid UTF-8")
	case !gjson.ValidBytes(value):
		return nil, syntaxFault(value)
	case blanks == 0:
		return value, nil
	}
	return rawjson.AppendCompact(make([]byte, 0, len(value)-blanks), value), nil
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
