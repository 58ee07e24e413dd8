package mcp

import (
	"bytes"
	"regexp"
	"strconv"

	"github.com/tidwall/gjson"
)

// headTail holds the beginning and the end of a message that is too long to keep, in order to find the request that it answers:
// servers write the id before the result, or near the end.
type headTail struct{ head, tail []byte }

const headSize, tailSize = 256, 64

// write appends the next bytes.
func (h *headTail) write(chunk []byte) {
	h.head = append(h.head, chunk[:min(len(chunk), headSize-len(h.head))]...)
	h.tail = append(h.tail, chunk[max(len(chunk)-tailSize, 0):]...)
	h.tail = h.tail[max(len(h.tail)-tailSize, 0):]
}

// lastID matches the end of a message whose id comes last or is followed only by jsonrpc.
var lastID = regexp.MustCompile(`[,{]\s*"id"\s*:\s*"?([0-9]+)"?\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$`)

// requestID returns the id of the request that the message answers. It returns false if no id is found, or if it cannot be one of ours,
// which are numbers.
func (h *headTail) requestID() (int64, bool) {
	head := gjson.ParseBytes(h.head[max(bytes.IndexByte(h.head, '{'), 0):]) // skip the event's fields before its data
	id, method := head.Get("id"), head.Get("method")
	// An id at the end of head may have been cut off.
	if whole := id.Index+len(id.Raw) < len(head.Raw); id.Exists() && whole || method.Exists() {
		number := idNumber(id)
		return number, number != 0 && !method.Exists()
	}
	match := lastID.FindSubmatch(h.tail)
	if match == nil {
		return 0, false
	}
	last, err := strconv.ParseInt(string(match[1]), 10, 64)
	return last, err == nil
}
