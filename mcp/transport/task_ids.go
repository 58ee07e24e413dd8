package transport

import (
	"encoding/json"
	"net/http"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/internal/protocol"
	"github.com/onecall-mcp/onecall/internal/rawjson"
)

// methodListen is the method by which a client asks for notifications on a stream (MCP 2026-07-28).
const methodListen = "subscriptions/listen"

// MetaTaskIDs is the member of _meta that has the ids of the tasks that a client wants to be told of (SEP-2663): the SDK reads none of
// notifications but what it knows.
const MetaTaskIDs = "onecall/taskIds"

// codeHeader is the error for a header that says something else than the message (MCP 2026-07-28).
const codeHeader = -32020

// misnamedTask returns what is wrong with a request about a task whose header names another task than the message, or none in a version
// that needs it: what stands between may have sent it to the wrong server. nil: nothing is. The SDK checks the header of methods that it
// knows.
func misnamedTask(m envelope, body []byte, h http.Header) *badMessage {
	switch m.method {
	case "tasks/get", "tasks/update", "tasks/cancel":
	default:
		return nil
	}
	name := h.Get("Mcp-Name")
	isOptional := h.Get("Mcp-Protocol-Version") < protocol.Stateless
	if name == gjson.GetBytes(body, "params.taskId").Str || name == "" && isOptional {
		return nil
	}
	return &badMessage{m.id, codeHeader, "the header Mcp-Name must be the taskId of params"}
}

// keepTaskIDs is withTaskIDs for a whole message of methodListen.
func keepTaskIDs(message []byte) []byte {
	params := gjson.GetBytes(message, "params").Raw
	changed, ok := withTaskIDs(json.RawMessage(params))
	if !ok {
		return message
	}
	all := rawjson.NewTable(message)
	all.Set("params", string(changed))
	return rawjson.AppendObject(nil, all.List)
}

// withTaskIDs returns the params of methodListen with their notifications.taskIds in their _meta. false: they have none, or a _meta that
// the SDK refuses.
func withTaskIDs(params json.RawMessage) (changed json.RawMessage, ok bool) {
	ids, sent := gjson.GetBytes(params, "notifications.taskIds"), gjson.GetBytes(params, "_meta")
	if !ids.Exists() || sent.Type != gjson.Null && !sent.IsObject() {
		return params, false
	}
	all := rawjson.NewTable(params)
	meta := rawjson.NewTable([]byte(all.Get("_meta")))
	meta.Set(MetaTaskIDs, ids.Raw)
	all.Set("_meta", string(rawjson.AppendObject(nil, meta.List)))
	return rawjson.AppendObject(nil, all.List), true
}
