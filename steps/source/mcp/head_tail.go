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
func (o *headTail) write(chunk []byte) {
	o.head = append(o.head, chunk[:min(len(chunk), headSize-len(o.head))]...)
	o.tail = append(o.tail, chunk[max(len(chunk)-tailSize, 0):]...)
	o.tail = o.tail[max(len(o.tail)-tailSize, 0):]
}

var lastID = regexp.MustCompile(`[,{]\s*"id"\s*:\s*([0-9]+)\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$`)

// requestID returns the id of the request that the message answers; false: it answers none of ours, whose ids are numbers.
func (o *headTail) requestID() (int64, bool) {
	begin := gjson.ParseBytes(o.head[max(bytes.IndexByte(o.head, '{'), 0):]) // skip the event's fields before its data
	id, method := begin.Get("id"), begin.Get("method")
	if whole := id.Index+len(id.Raw) < len(begin.Raw); id.Exists() && whole || method.Exists() {
		return id.Int(), id.Type == gjson.Number && !method.Exists()
	}
	found := lastID.FindSubmatch(o.tail)
	if found == nil {
		return 0, false
	}
	last, err := strconv.ParseInt(string(found[1]), 10, 64)
	return last, err == nil
}
