package mcp

import (
	"bytes"
	"regexp"
	"strconv"

	"github.com/tidwall/gjson"
)

// outline is the beginning and the end of a message that is too long to be kept. They tell which request it answers: servers
// write the id before the result, or last beside the version.
type outline struct{ head, tail []byte }

const headSize, tailSize = 256, 64

// feed goes on with the next bytes.
func (o *outline) feed(chunk []byte) {
	o.head = append(o.head, chunk[:min(len(chunk), headSize-len(o.head))]...)
	o.tail = append(o.tail, chunk[max(len(chunk)-tailSize, 0):]...)
	o.tail = o.tail[max(len(o.tail)-tailSize, 0):]
}

var lastID = regexp.MustCompile(`[,{]\s*"id"\s*:\s*([0-9]+)\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$`)

// answers is the id of the request that the message answers; false if it answers none of ours, whose ids are numbers.
func (o *outline) answers() (int64, bool) {
	begin := gjson.ParseBytes(o.head[max(bytes.IndexByte(o.head, '{'), 0):]) // behind what an event has before its data
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
