package replay

import (
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/rawjson"
)

// appendCanonical appends the canonical form of a value to dst. The value must be compact, valid JSON. Equal values have the same canonical
// form. A value that has none, such as an object with a duplicate key, is bad_json.
func appendCanonical(dst, value []byte) ([]byte, error) {
	text, err := rawjson.AppendCanonical(dst, value)
	if err != nil {
		return nil, fault.New(fault.BadJSON, "%v", err)
	}
	return text, nil
}
