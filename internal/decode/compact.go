package decode

import (
	"errors"
	"io"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/onecall-mcp/onecall/fault"
)

// Compact checks that text is one JSON value in UTF-8 without duplicate keys (RFC 8259; RFC 7493 for the keys), and removes the white
// space between its tokens. Numbers and strings keep their spelling. The fault, bad_json, has the offset and the pointer of the mistake.
func Compact(text []byte) ([]byte, *fault.Error) {
	compact, err := jsontext.AppendFormat(make([]byte, 0, len(text)), text, jsontext.PreserveRawStrings(true))
	if err == nil {
		return compact, nil
	}
	f := fault.New(fault.BadJSON, "not JSON: %v", err)
	var syntax *jsontext.SyntacticError
	if errors.As(err, &syntax) {
		f.Offset = int(syntax.ByteOffset)
		if len(syntax.JSONPointer) <= maxPointer {
			f.At = string(syntax.JSONPointer)
		}
		f.Message = "not JSON: " + syntax.Err.Error()
		if errors.Is(syntax.Err, io.ErrUnexpectedEOF) {
			f.Message = "not JSON: it ends too early: a bracket, a brace or a quote is missing"
		}
		if errors.Is(err, jsontext.ErrDuplicateName) {
			f.Message += " " + fault.Quote(fault.Clip(syntax.JSONPointer.LastToken(), maxName)) + ": a key may occur only once in an object"
		}
	}
	f.Err = err
	return nil, f
}

// maxPointer is the maximum length in bytes of a pointer into text that is not JSON; a longer one is left out.
const maxPointer = 400
