package steps

import (
	"strings"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
)

// maxReason bounds a reason, in bytes.
const maxReason = 500

// Reason returns why a call failed, in the words of the JSON body that came with the failure: its member message, else error.message, else
// error, whichever is the first text; "" if there is none. A long reason is cut.
func Reason(body []byte) string {
	value := gjson.ParseBytes(body)
	if !value.IsObject() {
		return ""
	}
	for _, path := range []string{"message", "error.message", "error"} {
		if reason := value.Get(path); reason.Type == gjson.String {
			if text := strings.TrimSpace(reason.Str); text != "" {
				return fault.Clip(text, maxReason)
			}
		}
	}
	return ""
}
