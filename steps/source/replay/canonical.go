package replay

import (
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/rawjson"
)

// appendCanonical appends compact, valid JSON in its canonical form, which equal values share; bad_json if it has none.
func appendCanonical(dst, value []byte) ([]byte, error) {
	text, err := rawjson.AppendCanonical(dst, value)
	if err != nil {
		return nil, fault.New(fault.BadJSON, "%v", err)
	}
	return text, nil
}
