package transport

import (
	"bytes"
	"math/rand/v2"
	"strconv"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// Verbatim returns the error of an upstream in a form that the SDK writes unchanged: what the client reads is e. Of an error that says
// that a method is not found, the SDK would replace message and data, and since MCP 2026-07-28 it would answer it with the HTTP status 404,
// as if this server had no such method. The codes for which MCP asks for 400 keep that status.
func Verbatim(e *jsonrpc.Error) *jsonrpc.Error {
	if e.Code != jsonrpc.CodeMethodNotFound {
		return e
	}
	disguised := *e
	disguised.Code -= disguise * codeRange
	return &disguised
}

// disguise is written before the five digits of a code of JSON-RPC, so that the SDK does not recognize the code. It is random, so that no
// upstream can write it.
var disguise = int64(1e12) + rand.Int64N(8e12)

const codeRange = 100_000

// disguisedCode is how an error with a disguised code begins, and plainCode what takes its place.
var (
	disguisedCode = []byte(`"error":{"code":-` + strconv.FormatInt(disguise, 10))
	plainCode     = []byte(`"error":{"code":-`)
)

// TaskCarrier is the method by which the SDK sends a notification of a task (AsTask): it refuses methods that it does not know.
const TaskCarrier = "notifications/elicitation/complete"

// AsTask returns the params of a notification of TaskCarrier that the client reads as one of notifications/tasks, with these params.
func AsTask(params []byte) []byte {
	return append(append([]byte{'{'}, taskMark...), bytes.TrimPrefix(params, []byte("{"))...)
}

// taskMark is the first member of the params of such a notification, and disguisedTask what precedes and has it. It is random, so that
// nothing else begins like it.
var (
	taskMark      = `"` + strconv.FormatInt(disguise, 10) + `":0,`
	disguisedTask = []byte(`"method":"` + TaskCarrier + `","params":{` + taskMark)
	plainTask     = []byte(`"method":"notifications/tasks","params":{`)
)

// maxBefore bounds what precedes the method in a message, with the lines of its event.
const maxBefore = 512

// maxError bounds, in bytes, a message with an error of an upstream, whose details are bounded.
const maxError = 1 << 20

// undisguised returns a message with the code of its error as the upstream wrote it, or with the method of a notification of a task.
func undisguised(message []byte) []byte {
	if bytes.Contains(message[:min(len(message), maxBefore)], disguisedTask) {
		return bytes.Replace(message, disguisedTask, plainTask, 1)
	}
	if len(message) > maxError || !bytes.Contains(message, disguisedCode) {
		return message
	}
	return bytes.Replace(message, disguisedCode, plainCode, 1)
}
